#pragma once

#include <cstdint>

#include "hethub/accel/cpu/kernels/kernels.h"

// What the elements of tensors are in memory; arithmetic is in float.
namespace hethub::HETHUB_LEVEL {
namespace {

/// Reads as a float; a float is stored to the nearest, ties to even. What is no number stays none.
struct Bf16 {
  std::uint16_t bits;

  operator float() const {  // NOLINT(google-explicit-constructor): kernels read as for float
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16U);
  }
  Bf16& operator=(float value) {
    const auto all = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = (all + 0x7FFFU + ((all >> 16U) & 1U)) >> 16U;
    const bool none = (all & 0x7FFFFFFFU) > 0x7F800000U;
    bits = static_cast<std::uint16_t>(none ? (all >> 16U) | 0x40U : rounded);
    return *this;
  }
};

/// Calls kernel(element) with an element of the type that the op computes in: bf16 or f32.
template <typename Kernel>
inline void in_type_of(const Arguments& arguments, const Kernel& kernel) {
  if (arguments.dtype == DType::kBf16) {
    kernel(Bf16{});
  } else {
    kernel(float{});
  }
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
