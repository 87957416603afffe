#pragma once

// What the kernels and the runtime of hethub/accel/gpu need of their vendor: CUDA.

#include <cuda_runtime.h>

using cudaDeviceProp_t = cudaDeviceProp;

#define HETHUB_VENDOR(name) cuda##name

#include "hethub/accel/gpu/kernel_language.h"
