#include <algorithm>

#include "hethub/comm/connection.h"

// What a Connection writes; connection.cpp has what it reads.

namespace hethub {

void Connection::write_frames() {
  while (out_.active || next_frame()) {
    const std::span<const std::byte> frame =
        std::as_bytes(std::span(&out_.frame, 1)).subspan(out_.frame_bytes);
    const std::span<const std::byte> payload(out_.from, static_cast<std::size_t>(out_.left));
    const std::size_t taken = wire_->write(frame, payload);
    const std::size_t of_frame = std::min(taken, frame.size());
    out_.frame_bytes += of_frame;
    if (taken > of_frame) {
      out_.from += taken - of_frame;
      out_.left -= static_cast<std::int64_t>(taken - of_frame);
    }
    if (taken < frame.size() + payload.size()) return;
    end_frame();
  }
}

// Replies first, so that a peer that waits for a place can go on; then new messages in order; then
// the parts of large ones in turn.
bool Connection::next_frame() {
  out_ = {};
  if (abort_pending_) {
    abort_pending_ = false;
    out_.frame.kind = FrameKind::kAbort;
    out_.from = reinterpret_cast<const std::byte*>(abort_text_.data());
    out_.size = static_cast<std::int64_t>(abort_text_.size());
    out_.frame.bytes = static_cast<std::uint64_t>(out_.size);
  } else if (control_count_ > 0) {
    out_.frame = *control_frame(control_begin_);
    control_begin_ = (control_begin_ + 1) % control_size_;
    --control_count_;
  } else if (!outgoing_.empty() && credit_ > 0) {
    --credit_;
    out_.message = outgoing_.pop();
    Message& sent = message(out_.message);
    out_.frame = {.kind = FrameKind::kOffer,
                  .match = sent.tag.match,
                  .check = sent.tag.check,
                  .bytes = static_cast<std::uint64_t>(sent.bytes),
                  .id = table_.handle_of(out_.message).id()};
    if (sent.bytes <= kEagerBytes) {
      out_.frame.kind = FrameKind::kEager;
      out_.from = sent.data;
      out_.size = sent.bytes;
    } else if (wire_->can_pull()) {
      sent.stamp = out_.frame.id;
      out_.frame.memory = {.data = reinterpret_cast<std::uintptr_t>(sent.data),
                           .stamp = reinterpret_cast<std::uintptr_t>(&sent.stamp)};
    }
  } else if (!parts_.empty()) {
    next_part(parts_.pop());
  } else {
    return false;
  }
  out_.left = out_.size;
  out_.active = true;
  return true;
}

void Connection::next_part(int index) {
  const Message& sent = message(index);
  out_.message = index;
  out_.from = sent.data + sent.done;
  out_.size = std::min(kPartBytes, sent.bytes - sent.done);
  out_.frame = {
      .kind = FrameKind::kPart, .bytes = static_cast<std::uint64_t>(out_.size), .id = sent.partner};
}

void Connection::end_frame() {
  out_.active = false;
  if (out_.message < 0) return;
  Message& sent = message(out_.message);
  if (out_.frame.kind == FrameKind::kOffer) {
    sent.state = MessageState::kOffered;
    return;
  }
  sent.done += out_.size;
  if (sent.done == sent.bytes) {
    finish(out_.message);
  } else {
    parts_.push(out_.message);
  }
}

}  // namespace hethub
