#pragma once

#include <cstdint>

#include "hethub/base/dtype.h"

namespace hethub {

/// c[m, n] (+)= a[m, k] · b[k, n] (+ bias[n]), added up in f32. a and b may lie transposed in
/// memory.
struct MatrixProduct {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  bool a_transposed = false;  ///< memory holds a as [k, m]
  bool b_transposed = false;  ///< memory holds b as [n, k]
  bool bias = false;
  bool accumulate = false;
  DType operands = DType::kF32;      ///< of a, b and bias: f32 or bf16
  DType result = DType::kF32;        ///< of c
  std::int64_t workspace_bytes = 0;  ///< the most it may use
};

/// Where the operands of one run are.
struct MatrixOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
};

}  // namespace hethub
