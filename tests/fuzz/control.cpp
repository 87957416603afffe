// What a peer may send on a control connection: frames, in pieces of any size, and errors as text.

#include <algorithm>
#include <string>

#include "hethub/comm/control_inbox.h"
#include "hethub/comm/error_text.h"
#include "tests/fuzz/target.h"

namespace hethub {
namespace {

void read_frames(FuzzInput& input) {
  ControlInbox inbox;
  ControlFrame frame;
  std::string text;
  bool malformed = false;
  while (!input.empty()) {
    const std::span<std::byte> room = inbox.room();
    must(malformed || !room.empty());
    const auto piece =
        input.take_bytes(std::min<std::size_t>(room.size(), 1U + input.take<std::uint8_t>()));
    std::copy(piece.begin(), piece.end(), room.begin());
    inbox.add(piece.size());
    ControlInbox::Found found = ControlInbox::Found::kFrame;
    while (found == ControlInbox::Found::kFrame) {
      found = inbox.next(frame, text);
      must(text.size() <= ControlInbox::kMostText);
      must(!malformed || found == ControlInbox::Found::kMalformed);
      if (found == ControlInbox::Found::kFrame) must(error_from(text).what() != nullptr);
    }
    malformed = found == ControlInbox::Found::kMalformed;
    if (malformed && room.size() == piece.size()) return;
  }
}

}  // namespace
}  // namespace hethub

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hethub::FuzzInput input(data, size);
  hethub::read_frames(input);
  // What went through an error's text and back stays as it is.
  const auto error = hethub::error_from({reinterpret_cast<const char*>(data), size});
  const auto again = hethub::error_from(hethub::error_text(error));
  hethub::must(hethub::error_text(again) == hethub::error_text(error));
  return 0;
}
