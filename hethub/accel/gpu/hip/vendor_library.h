#pragma once

#include "hethub/accel/gpu/library.h"

namespace hethub::gpu {

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
