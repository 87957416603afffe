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
    .name = "cuBLAS",
    .files = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
    .create = "cublasCreate_v2",
    .destroy = "cublasDestroy_v2",
    .set_stream = "cublasSetStream_v2",
    .sgemm = "cublasSgemm_v2",
    .plain = 0,
    .transposed = 1};

}  // namespace hethub::gpu
