#pragma once

#include "hethub/accel/cpu/kernels/kernels.h"

namespace hethub::HETHUB_LEVEL {
namespace {

inline const float* input(const Arguments& arguments, int position) {
  return static_cast<const float*>(arguments.inputs[position]);
}

inline const std::int32_t* integers(const Arguments& arguments, int position) {
  return static_cast<const std::int32_t*>(arguments.inputs[position]);
}

inline float* output(const Arguments& arguments, int position) {
  return static_cast<float*>(arguments.outputs[position]);
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
