#pragma once

#include "hethub/accel/cpu/kernels/element.h"
#include "hethub/accel/cpu/kernels/kernels.h"

namespace hethub::HETHUB_LEVEL {
namespace {

template <typename T = float>
inline const T* input(const Arguments& arguments, int position) {
  return static_cast<const T*>(arguments.inputs[position]);
}

inline const std::int32_t* integers(const Arguments& arguments, int position) {
  return input<std::int32_t>(arguments, position);
}

template <typename T = float>
inline T* output(const Arguments& arguments, int position) {
  return static_cast<T*>(arguments.outputs[position]);
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
