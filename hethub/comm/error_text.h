#pragma once

#include <string>

#include "hethub/base/error.h"

namespace hethub {

/// An error as it travels between ranks: its code, then the four parts, each ended by a zero and
/// cut to what a connection takes.
std::string error_text(const Error& error);

/// Text from a peer, with a question mark for each byte that would steer a terminal.
std::string printable(std::string text);

/// The error of a text that came from a peer. A text that is none gives an internal error, with the
/// parts that it has.
Error error_from(const std::string& all);

}  // namespace hethub
