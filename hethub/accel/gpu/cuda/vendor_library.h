#pragma once

#include "hethub/accel/gpu/library.h"

namespace hethub::gpu {

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
