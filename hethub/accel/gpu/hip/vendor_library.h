#pragma once

#include <array>

namespace hethub::gpu {

/// The vendor's library of matrix products, and how it names what matrices.cpp calls.
struct VendorLibrary {
  const char* name = "";
  std::array<const char*, 3> files = {};
  const char* create = "";
  const char* destroy = "";
  const char* set_stream = "";
  const char* sgemm = "";
  int plain = 0;
  int transposed = 0;
};

inline constexpr VendorLibrary kLibrary = {
    .name = "rocBLAS",
    .files = {"librocblas.so.4", "librocblas.so.0", "librocblas.so"},
    .create = "rocblas_create_handle",
    .destroy = "rocblas_destroy_handle",
    .set_stream = "rocblas_set_stream",
    .sgemm = "rocblas_sgemm",
    .plain = 111,
    .transposed = 112};

}  // namespace hethub::gpu
