#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hethub {

/// The element types of tensors, messages and files.
enum class DType : std::uint8_t { kF64, kF32, kF16, kBf16, kI64, kI32, kI8, kU8 };

/// What is fixed about each DType, in the order of the enum.
struct DTypeRow {
  std::string_view name;
  std::int64_t bytes;
};

inline constexpr std::array<DTypeRow, 8> kDTypes = {{{"f64", 8},
                                                     {"f32", 4},
                                                     {"f16", 2},
                                                     {"bf16", 2},
                                                     {"i64", 8},
                                                     {"i32", 4},
                                                     {"i8", 1},
                                                     {"u8", 1}}};

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].bytes;
}

/// The type as files and messages spell it, e.g. "bf16".
constexpr std::string_view name_of(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}

/// The type that is spelled so, or none.
constexpr std::optional<DType> dtype_named(std::string_view name) {
  for (std::size_t index = 0; index < kDTypes.size(); ++index) {
    if (kDTypes[index].name == name) return static_cast<DType>(index);
  }
  return std::nullopt;
}

}  // namespace hethub
