#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference.h"

namespace hethub::conformance {

/// Inputs for an op that mean something: ids within the table, starts of documents, norms and log
/// sums that belong to the other inputs. Every float is an exact number
/// of its tensor's type.
std::vector<Values> make_inputs(const Op& op, std::uint64_t seed);

/// The bytes of a tensor of that type, and back.
std::vector<std::byte> encode(const TensorSpec& spec, const Values& values);
Values decode(const TensorSpec& spec, const std::vector<std::byte>& bytes);

}  // namespace hethub::conformance
