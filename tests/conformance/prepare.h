#pragma once

#include <functional>
#include <memory>

#include "backends.h"
#include "hethub/accel/backend.h"

namespace hethub::conformance {

/// Makes an op ready, as Backend::prepare does.
using Prepare = std::function<std::unique_ptr<PreparedOp>(const Op&)>;

/// Every kind of op, in every dtype: a backend has a kernel for those its row names, and refuses
/// the others with kUnsupported and their name. A failure names the backend, the op and the dtype.
/// Nothing is asked for in the dtypes of `left_out`, of which the machine has no products.
void expect_kernels_of(const BackendRow& row, const Prepare& prepare,
                       const std::vector<DType>& left_out = {});

}  // namespace hethub::conformance
