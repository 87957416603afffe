#include "hethub/accel/gpu/runtime.h"
#include "hethub/accel/plugin/serve.h"

const char* const hethub::gpu::kVendor = "hip";
const char* const hethub::kServedName = "hip";
