#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/reduction.h"

// Values of every dtype for tests, and a serial reduction over them that uses none of the code
// under test: f16 and bf16 are read and written by their definitions.

namespace hethub {

/// Element `i` of rank `rank`: fractions where the dtype has them, small where products grow.
double raw_value(DType dtype, Reduction reduction, int rank, std::int64_t i);

/// Stores a value rounded to the dtype, and reads one.
void put(DType dtype, double value, std::byte* to);
double taken(DType dtype, const std::byte* from);

/// The first `count` elements of a rank.
std::vector<std::byte> values_of(DType dtype, Reduction reduction, int rank, std::int64_t count);

/// The reduction of `values` in double, not yet rounded to the dtype.
double reduced(Reduction reduction, std::span<const double> values);

/// How far a result may lie from `reduced`, relative to the sum of the sizes of the values: the
/// dtype's last bit, and that of f32 for each of the `terms` that f16 and bf16 are added in. 0: not
/// at all.
double tolerance(DType dtype, std::size_t terms);

/// What an integer dtype makes of a result: cut towards zero, modulo its size.
double wrapped(DType dtype, double value);

}  // namespace hethub
