#include "hethub/comm/error_text.h"

#include <array>

#include "hethub/comm/connection.h"

namespace hethub {

std::string error_text(const Error& error) {
  const ErrorParts& parts = error.parts();
  std::string all(1, static_cast<char>(error.code()));
  for (const std::string* part : {&parts.what, &parts.found, &parts.expected, &parts.fix}) {
    all += part->substr(0, Connection::kMostAbortText / 5) + '\0';
  }
  return all;
}

std::string printable(std::string text) {
  for (char& letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if ((code < 0x20 && letter != '\n') || code == 0x7f) letter = '?';
  }
  return text;
}

Error error_from(const std::string& all) {
  std::array<std::string, 4> parts = {};
  std::size_t part = 0;
  for (std::size_t at = 1; at < all.size() && part < parts.size(); ++at) {
    if (all[at] == '\0') {
      ++part;
    } else {
      parts[part] += all[at];
    }
  }
  const auto known = static_cast<unsigned>(ErrorCode::kInternal);
  const unsigned code = all.empty() ? known : static_cast<unsigned char>(all[0]);
  return {code <= known ? static_cast<ErrorCode>(code) : ErrorCode::kInternal,
          {.what = printable(parts[0]),
           .found = printable(parts[1]),
           .expected = printable(parts[2]),
           .fix = printable(parts[3])}};
}

}  // namespace hethub
