#include "hethub/checkpoint/stored_type.h"

#include <array>

namespace hethub {
namespace {

struct Row {
  std::string_view name;
  int bits;
};

// Ascending, as the official library orders them. Source: huggingface/safetensors, tensor.rs.
constexpr std::array<Row, 22> kRows = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

// In the order of DType.
constexpr std::array<std::string_view, 8> kStoredNames = {"F64", "F32", "F16", "BF16",
                                                          "I64", "I32", "I8",  "U8"};

}  // namespace

std::optional<StoredType> stored_type_of(std::string_view name) {
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    if (kRows.at(row).name != name) continue;
    return StoredType{
        .name = kRows.at(row).name, .bits = kRows.at(row).bits, .order = static_cast<int>(row)};
  }
  return std::nullopt;
}

std::string_view stored_name_of(DType dtype) {
  return kStoredNames.at(static_cast<std::size_t>(dtype));
}

std::optional<DType> dtype_of_stored(std::string_view name) {
  for (std::size_t dtype = 0; dtype < kStoredNames.size(); ++dtype) {
    if (kStoredNames.at(dtype) == name) return static_cast<DType>(dtype);
  }
  return std::nullopt;
}

}  // namespace hethub
