#pragma once

#include <cstdint>
#include <memory>

#include <oneapi/dnnl/dnnl_types.h>

#include "hethub/base/dtype.h"

namespace hethub {

/// The matrix library's context; it outlives the products made with it.
class MatrixLibrary {
 public:
  MatrixLibrary();
  ~MatrixLibrary();
  MatrixLibrary(const MatrixLibrary&) = delete;
  MatrixLibrary& operator=(const MatrixLibrary&) = delete;

  dnnl_engine* engine() const { return engine_; }
  dnnl_stream* stream() const { return stream_; }

 private:
  dnnl_engine* engine_ = nullptr;
  dnnl_stream* stream_ = nullptr;
};

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

/// A product that is ready to run. Threads: one at a time.
class PreparedProduct {
 public:
  /// Throws kUnsupported if the library has no implementation on this processor, or each needs more
  /// workspace; kInternal if the library fails.
  PreparedProduct(const MatrixLibrary& library, const MatrixProduct& product);
  ~PreparedProduct();
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  /// Allocates nothing.
  void run(const MatrixOperands& operands);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace hethub
