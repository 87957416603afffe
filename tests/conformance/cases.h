#pragma once

#include <vector>

#include "hethub/op/op.h"

namespace hethub::conformance {

/// Every kind of op a device runs, at odd shapes: 1, primes, just past a vector, and bigger ones.
std::vector<Op> all_cases();

/// Those of all_cases() that are small enough for finite differences.
std::vector<Op> small_cases();

/// all_cases() in another dtype, without those whose operands are the same in f32; in f16 with
/// fewer sizes of attention.
std::vector<Op> cases_in(DType dtype);

/// "rms_norm f32 rows=3 width=17", as failures name a case.
std::string title_of(const Op& op);

}  // namespace hethub::conformance
