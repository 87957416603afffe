#pragma once

#include <cstddef>
#include <span>

#include "hethub/base/dtype.h"

namespace hethub {

/// Widens or rounds to nearest, ties to even: `from` holds out.size() elements of type `dtype`,
/// little-endian and at any alignment. Throws kUnsupported unless `dtype` is f64, f32, f16 or bf16.
void convert_to_f32(DType dtype, std::span<const std::byte> from, std::span<float> out);

}  // namespace hethub
