#pragma once

#include <string>
#include <string_view>

#include "hethub/base/error.h"

namespace hethub {

/// What the error says failed where ranks mean different things by one collective; the ranks that
/// are told of it then say what they meant, and the verdict names them all.
inline constexpr std::string_view kMismatch = "collective mismatch between ranks";
inline bool is_mismatch(const Error& error) { return error.parts().what == kMismatch; }

/// An error as it travels between ranks: its code, then the four parts, each ended by a zero and
/// cut to what a connection takes.
std::string error_text(const Error& error);

/// Text from a peer, with a question mark for each byte that would steer a terminal.
std::string printable(std::string text);

/// The error of a text that came from a peer. A text that is none gives an internal error, with the
/// parts that it has.
Error error_from(const std::string& all);

}  // namespace hethub
