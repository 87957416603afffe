#pragma once

#include "hethub/accel/backend.h"
#include "hethub/base/error.h"

namespace hethub {

/// Whether a backend has matrix products in a dtype on this machine: processors without AVX-512
/// have none in bf16.
inline bool multiplies(Backend& backend, DType dtype) {
  try {
    (void)backend.prepare({"probe", dtype, Linear{.rows = 16, .in = 16, .out = 16}});
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return false;
  }
}

}  // namespace hethub
