#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hethub {

/// Why a line is no record with a text, and where.
struct LineFault {
  std::size_t column = 1;  ///< in bytes, from 1
  std::string found = {};
  std::string expected = {};
};

/// What becomes of a \uD800-\uDFFF escape without its partner.
enum class LoneSurrogates : bool { kFault, kReplace };

/// Reads the string member `key` of the JSON object that `line` is into `text_out`.
///
/// The whole line is checked (strict JSON as Python's json module reads it: NaN and Infinity are
/// numbers, the last of duplicate keys holds), with at most 1000 levels of nesting. `line` must be
/// well-formed UTF-8. Returns the fault if there is one; `text_out` is then unspecified.
std::optional<LineFault> read_json_text(std::string_view line, std::string_view key,
                                        LoneSurrogates lone_surrogates, std::string& text_out);

}  // namespace hethub
