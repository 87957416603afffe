#pragma once

#include <vector>

#include "hethub/op/op.h"

namespace hethub::conformance {

/// A tensor in fp64; integers are held exactly.
using Values = std::vector<double>;

/// What an op leaves in its outputs, written from the formulas in op.h with plain loops and nothing
/// taken from a backend. `inputs` are in the op's order; an output that updates holds the sum.
std::vector<Values> reference(const Op& op, const std::vector<Values>& inputs);

}  // namespace hethub::conformance
