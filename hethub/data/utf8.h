#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hethub {

/// U+FFFD, which stands for what cannot be decoded.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// Position of the first byte that is not well-formed UTF-8 (Unicode 15, table 3-7: no overlong
/// forms, no surrogates, nothing above U+10FFFF), or npos.
std::size_t first_invalid_utf8(std::string_view bytes);

/// `bytes` with one U+FFFD for each maximal part of a broken character, as Python's "replace".
std::string replaced_utf8(std::string_view bytes);

/// Appends the UTF-8 of a code point up to U+10FFFF that is no surrogate.
void append_utf8(std::uint32_t code_point, std::string& out);

}  // namespace hethub
