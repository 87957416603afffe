#include <algorithm>

#include "hethub/comm/connection.h"

// How a Connection takes a large message that its peer offers.

namespace hethub {

void Connection::take_offer(int index, const Frame& frame) {
  Message& wanted = message(index);
  wanted.partner = frame.id;
  wanted.source = frame.memory;
  if (frame.memory.data != 0 && wire_->can_pull()) {
    pulls_.push(index);
  } else {
    ask_for_parts(index);
  }
}

void Connection::ask_for_parts(int index) {
  message(index).takes_parts = true;
  push_control({.kind = FrameKind::kClear,
                .match = table_.handle_of(index).id(),
                .id = message(index).partner});
}

// Copies the next piece of the message that has waited longest.
void Connection::pull() {
  const int index = pulls_.pop();
  Message& wanted = message(index);
  const std::int64_t bytes = std::min(kPullBytes, wanted.bytes - wanted.done);
  std::uint64_t stamp = kVoidStamp;
  PeerMemory from = wanted.source;
  from.data += static_cast<std::uint64_t>(wanted.done);
  if (!wire_->pull(from, {wanted.data + wanted.done, static_cast<std::size_t>(bytes)}, stamp)) {
    wanted.done = 0;
    ask_for_parts(index);
  } else if (stamp != wanted.partner) {
    fail(ConnectionProblem::kGivenUp, "the sender cancelled it");
  } else {
    wanted.done += bytes;
    if (wanted.done < wanted.bytes) {
      pulls_.push(index);
      return;
    }
    push_control({.kind = FrameKind::kPulled, .id = wanted.partner});
    finish(index);
  }
  write_frames();
}

void Connection::begin_pulled(const Frame& frame) {
  const Message* offered = find(frame.id);
  if (offered == nullptr || !offered->sends || offered->state != MessageState::kOffered) return;
  finish(static_cast<int>(Handle::of(frame.id).index));
}

}  // namespace hethub
