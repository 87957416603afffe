#pragma once

#include <cstdint>
#include <string>

#include "hethub/checkpoint/safetensors.h"

namespace hethub {

/// The longest header the official library reads.
inline constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;

/// Reads the JSON text of a header, with `data_bytes` bytes following it in the file `name`.
/// Throws kCorruptData with the official library's name for the fault. Needs memory in proportion
/// to the text, whatever it says.
SafetensorsHeader parse_safetensors_header(const std::string& json, std::int64_t data_bytes,
                                           const std::string& name);

/// Throws kCorruptData: "NAME: OFFICIAL_ERROR, found FOUND, expected EXPECTED; ...".
[[noreturn]] void bad_safetensors(const std::string& name, const std::string& official_error,
                                  std::string found, std::string expected,
                                  std::string fix = "fetch the file again, or ask who wrote it");

}  // namespace hethub
