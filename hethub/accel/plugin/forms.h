#pragma once

#include "hethub/accel/plugin/plugin.h"
#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "hethub/op/op.h"

namespace hethub {

/// The op as it crosses the edge. It points to the texts of `op` and to texts that never go.
HethubOp form_of(const Op& op);

/// The op that crossed. Throws kUnsupported, naming it, if this side knows no such kind or dtype.
Op op_of(const HethubOp& form);

HethubDevice form_of(const FoundDevice& device);
FoundDevice device_of(const HethubDevice& form);

/// Fills `form` with the parts of `error`.
void fill(HethubError& form, const Error& error);

/// The error that crossed; one of an unknown code is kInternal.
Error error_of(const HethubError& form);

}  // namespace hethub
