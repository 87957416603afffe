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

/// What elements are measured against beside themselves. In some gradients terms of size 1 cancel,
/// wholly so in a row of one element or a sequence of one position; those of a layer norm are as
/// large as its rows' 1/deviation, which are in its last input.
double size_of_terms(const Op& op, const std::vector<Values>& inputs, const Values& expected);

/// The bytes of a tensor of that type, and back.
std::vector<std::byte> encode(const TensorSpec& spec, const Values& values);
Values decode(const TensorSpec& spec, const std::vector<std::byte>& bytes);

}  // namespace hethub::conformance
