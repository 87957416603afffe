#pragma once

#include <memory>

namespace hethub::gpu {

/// c[m, n] = a · b or, with `accumulate`, c += a · b; row-major fp32 on the device. `a` is [m, k],
/// or [k, m] if a_transposed; `b` likewise.
struct Product {
  long m = 0;
  long k = 0;
  long n = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
};

/// The vendor's library of matrix products for one stream: cuBLAS or rocBLAS, loaded when it is
/// asked for, so that a plug-in runs without it.
class Matrices {
 public:
  virtual ~Matrices() = default;

  /// Queues a product. Throws kInternal with the library's status.
  virtual void multiply(const Product& product) = 0;
};

/// Null if the library is not there. Throws kInternal if it is and does not start.
std::unique_ptr<Matrices> open_matrices(void* stream);

}  // namespace hethub::gpu
