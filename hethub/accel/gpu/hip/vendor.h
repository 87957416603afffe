#pragma once

// What the kernels and the runtime of hethub/accel/gpu need of their vendor: HIP.

#include <hip/hip_runtime.h>

#define HETHUB_VENDOR(name) hip##name

#include "hethub/accel/gpu/kernel_language.h"
