#include "hethub/comm/control_inbox.h"

#include <cstring>

namespace hethub {

std::span<std::byte> ControlInbox::room() {
  if (bytes_ == nullptr) bytes_ = std::make_unique_for_overwrite<std::byte[]>(kSize);
  return std::span(bytes_.get(), kSize).subspan(got_);
}

ControlInbox::Found ControlInbox::next(ControlFrame& frame, std::string& text) {
  if (got_ < sizeof frame) return Found::kNothing;
  std::memcpy(&frame, bytes_.get(), sizeof frame);
  if (frame.magic != ControlFrame{}.magic || frame.bytes > kMostText) return Found::kMalformed;
  const std::size_t whole = sizeof frame + frame.bytes;
  if (got_ < whole) return Found::kNothing;
  text.assign(reinterpret_cast<const char*>(bytes_.get() + sizeof frame), frame.bytes);
  got_ -= whole;
  std::memmove(bytes_.get(), bytes_.get() + whole, got_);
  return Found::kFrame;
}

}  // namespace hethub
