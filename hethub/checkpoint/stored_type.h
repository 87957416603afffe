#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hethub/base/dtype.h"

namespace hethub {

/// An element type as safetensors files spell it. More types can be stored than computed with.
struct StoredType {
  std::string_view name = {};
  int bits = 0;
  int order = 0;  ///< the official writer puts tensors of a higher order first
};

/// The row of `name` ("F32", "BF16", ...), or nothing if safetensors has no such type.
std::optional<StoredType> stored_type_of(std::string_view name);

/// How a file spells `dtype`: kBf16 is "BF16".
std::string_view stored_name_of(DType dtype);

/// The reverse; nothing for types that cannot be computed with (U16, F8_E4M3, ...).
std::optional<DType> dtype_of_stored(std::string_view name);

}  // namespace hethub
