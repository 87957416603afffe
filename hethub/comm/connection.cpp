#include "hethub/comm/connection.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace hethub {

Connection::Connection(std::unique_ptr<Wire> wire, MessageTable& table, int peer)
    : wire_(std::move(wire)),
      table_(table),
      peer_(peer),
      posted_(table.all()),
      pulls_(table.all()),
      arrivals_(kStored),
      store_(std::make_unique_for_overwrite<std::byte[]>(kStored * kEagerBytes)),
      control_size_(2 * table.all().size() + kStored),
      control_(std::make_unique_for_overwrite<std::byte[]>(control_size_ * sizeof(Frame))),
      outgoing_(table.all()),
      parts_(table.all()),
      spare_(std::make_unique_for_overwrite<std::byte[]>(kPartBytes)) {
  static_assert(std::is_trivially_copyable_v<Frame>);
  arrival_order_.reserve(arrivals_.size());
  free_arrivals_.reserve(arrivals_.size());
  for (int arrival = kStored - 1; arrival >= 0; --arrival) {
    free_arrivals_.push_back(arrival);
  }
  told_.reserve(kMostAbortText);
}

void Connection::start_send(int index) {
  message(index).state = MessageState::kQueued;
  outgoing_.push(index);
  write_frames();
  wire_->flush();
}

void Connection::start_recv(int index) {
  Message& wanted = message(index);
  const auto found = std::find_if(arrival_order_.begin(), arrival_order_.end(), [&](int arrival) {
    const Arrival& kept = arrivals_[static_cast<std::size_t>(arrival)];
    return kept.claimed_by < 0 && kept.frame.match == wanted.tag.match;
  });
  if (found == arrival_order_.end()) {
    wanted.state = MessageState::kPosted;
    posted_.push(index);
    return;
  }
  Arrival& kept = arrivals_[static_cast<std::size_t>(*found)];
  wanted.state = MessageState::kReceiving;
  if (!agrees(wanted, kept.frame)) return;
  if (kept.frame.kind == FrameKind::kOffer) {
    take_offer(index, kept.frame);
    forget(*found);
  } else if (kept.complete) {
    if (wanted.bytes > 0) {
      std::memcpy(wanted.data, store_of(*found), static_cast<std::size_t>(wanted.bytes));
    }
    finish(index);
    forget(*found);
  } else {
    kept.claimed_by = index;
  }
  write_frames();
  wire_->flush();
}

void Connection::cancel(int index) {
  const auto is_it = [index](const Message&, int candidate) { return candidate == index; };
  message(index).stamp = kVoidStamp;  // what a peer pulls from now on is void
  for (MessageQueue* queue : {&posted_, &outgoing_, &parts_}) {
    if (queue->take(is_it) == index) break;
  }
  if (pulls_.take(is_it) == index) {
    push_control({.kind = FrameKind::kPulled, .id = message(index).partner});
  }
  if (in_.message == index) {
    in_.message = -1;
    in_.to = nullptr;
  }
  for (Arrival& arrival : arrivals_) {
    // Nobody will ask again for what was matched to a cancelled receive.
    if (arrival.claimed_by == index) arrival.claimed_by = -2;
  }
  if (out_.active && out_.message == index) {
    // The frame promised these bytes. What is left of a small message is sent from a copy.
    std::copy_n(out_.from, out_.left, spare_.get());
    out_.from = spare_.get();
    out_.message = -1;
    if (out_.frame.kind == FrameKind::kPart) {
      push_control({.kind = FrameKind::kGone, .id = out_.frame.id});
    }
  } else if (message(index).state == MessageState::kSending) {
    push_control({.kind = FrameKind::kGone, .id = message(index).partner});
  }
}

void Connection::abort(std::string_view text) {
  if (abort_pending_ || left_ || dead_) return;
  abort_text_ = text.substr(0, kMostAbortText);
  abort_pending_ = true;
  discarding_ = true;
  pump();
}

void Connection::say_goodbye() {
  discarding_ = true;
  push_control({.kind = FrameKind::kGoodbye});
  pump();
}

void Connection::pump() {
  if (dead_) return;
  bool more = true;
  while (more) {
    more = read_frames();
    write_frames();
  }
  if (!pulls_.empty()) pull();
  wire_->flush();
  if (wire_->end().empty()) return;
  dead_ = true;
  if (!left_) fail(ConnectionProblem::kLost, std::string(wire_->end()));
}

void Connection::finish(int index) {
  message(index).state = MessageState::kDone;
  message(index).done = message(index).bytes;
  ++completed_;
}

void Connection::fail(ConnectionProblem problem, std::string detail) {
  if (problem_ == ConnectionProblem::kNone) {
    detail_ = std::move(detail);
    problem_ = problem;
  }
  dead_ = dead_ || problem == ConnectionProblem::kLost || problem == ConnectionProblem::kMalformed;
  discarding_ = true;
}

bool Connection::agrees(const Message& wanted, const Frame& frame) {
  if (wanted.tag.check == frame.check && static_cast<std::uint64_t>(wanted.bytes) == frame.bytes) {
    return true;
  }
  mismatch_expected_ = wanted.tag;
  mismatch_found_ = {.match = frame.match, .check = frame.check};
  expected_bytes_ = wanted.bytes;
  found_bytes_ = static_cast<std::int64_t>(frame.bytes);
  fail(ConnectionProblem::kMismatch, {});
  return false;
}

void Connection::push_control(Frame frame) {
  if (control_count_ == control_size_) {
    fail(ConnectionProblem::kMalformed, "more replies asked for than messages exist");
    return;
  }
  if (control_count_ == 0) control_begin_ = 0;  // few of its pages are ever touched
  *control_frame((control_begin_ + control_count_) % control_size_) = frame;
  ++control_count_;
}

// Reads until nothing is there; whether a reply may now be due.
bool Connection::read_frames() {
  bool advanced = false;
  while (!dead_) {
    if (in_.begun) {
      if (!read_payload()) return advanced;
      continue;
    }
    if (in_.frame_bytes < sizeof(Frame)) {
      const auto frame = std::as_writable_bytes(std::span(&in_.frame, 1));
      in_.frame_bytes += wire_->read(frame.subspan(in_.frame_bytes));
      if (in_.frame_bytes < sizeof(Frame)) return advanced;
    }
    begin_frame();
    if (dead_) break;
    advanced = true;
    in_.begun = true;
    if (in_.left == 0) end_payload();
  }
  return false;
}

bool Connection::read_payload() {
  while (in_.left > 0) {
    std::byte* to = in_.to != nullptr ? in_.to : spare_.get() + kPartBytes / 2;
    const std::int64_t most = in_.to != nullptr ? in_.left : std::min(in_.left, kPartBytes / 2);
    const auto got = static_cast<std::int64_t>(wire_->read({to, static_cast<std::size_t>(most)}));
    if (got == 0) return false;
    if (in_.to != nullptr) in_.to += got;
    if (in_.frame.kind == FrameKind::kAbort) {
      told_.append(reinterpret_cast<const char*>(to), static_cast<std::size_t>(got));
    }
    in_.left -= got;
    if (in_.message >= 0) message(in_.message).done += got;
  }
  end_payload();
  return true;
}

void Connection::begin_frame() {
  const Frame& frame = in_.frame;
  in_.left = 0;
  in_.to = nullptr;
  in_.message = -1;
  in_.arrival = -1;
  if (frame.magic != kFrameMagic) {
    fail(ConnectionProblem::kMalformed, "bytes that are no frame");
    return;
  }
  switch (frame.kind) {
    case FrameKind::kEager:
      begin_eager(frame);
      return;
    case FrameKind::kOffer:
      begin_offer(frame);
      return;
    case FrameKind::kClear:
      begin_clear(frame);
      return;
    case FrameKind::kPart:
      begin_part(frame);
      return;
    case FrameKind::kGone:
      begin_gone(frame);
      return;
    case FrameKind::kPulled:
      begin_pulled(frame);
      return;
    case FrameKind::kCredit:
      if (frame.bytes > static_cast<std::uint64_t>(kStored - credit_)) break;
      credit_ += static_cast<int>(frame.bytes);
      return;
    case FrameKind::kAbort:
      if (frame.bytes > kMostAbortText) break;
      in_.left = static_cast<std::int64_t>(frame.bytes);
      told_.clear();
      return;
    case FrameKind::kGoodbye:
      left_ = true;
      push_control({.kind = FrameKind::kGoodbyeSeen});
      return;
    case FrameKind::kGoodbyeSeen:
      goodbye_seen_ = true;
      return;
  }
  fail(ConnectionProblem::kMalformed, "a frame of an unknown kind or size");
}

void Connection::begin_eager(const Frame& frame) {
  if (frame.bytes > static_cast<std::uint64_t>(kEagerBytes)) {
    fail(ConnectionProblem::kMalformed, "a small message above the limit for small messages");
    return;
  }
  in_.left = static_cast<std::int64_t>(frame.bytes);
  const int index =
      posted_.take([&](const Message& posted, int) { return posted.tag.match == frame.match; });
  if (index >= 0) {
    give_credit();
    Message& wanted = message(index);
    wanted.state = MessageState::kReceiving;
    if (!agrees(wanted, frame)) return;
    in_.message = index;
    in_.to = wanted.data;
  } else if (!discarding_) {
    in_.arrival = keep(frame);
    if (in_.arrival >= 0) in_.to = store_of(in_.arrival);
  }
}

void Connection::begin_offer(const Frame& frame) {
  const int index =
      posted_.take([&](const Message& posted, int) { return posted.tag.match == frame.match; });
  if (index < 0) {
    if (!discarding_) keep(frame);
    return;
  }
  give_credit();
  message(index).state = MessageState::kReceiving;
  if (!agrees(message(index), frame)) return;
  take_offer(index, frame);
}

Message* Connection::find(std::uint64_t id) {
  Message* found = table_.find(Handle::of(id));
  return found != nullptr && found->peer == peer_ ? found : nullptr;
}

void Connection::begin_clear(const Frame& frame) {
  Message* offered = find(frame.id);
  if (offered == nullptr || !offered->sends || offered->state != MessageState::kOffered) {
    push_control({.kind = FrameKind::kGone, .id = frame.match});
    return;
  }
  offered->partner = frame.match;
  offered->state = MessageState::kSending;
  parts_.push(static_cast<int>(Handle::of(frame.id).index));
}

void Connection::begin_part(const Frame& frame) {
  const Message* wanted = find(frame.id);
  if (frame.bytes > static_cast<std::uint64_t>(kPartBytes)) {
    fail(ConnectionProblem::kMalformed, "a part above the limit for parts");
    return;
  }
  in_.left = static_cast<std::int64_t>(frame.bytes);
  if (wanted == nullptr || wanted->state != MessageState::kReceiving) return;  // it was cancelled
  if (!wanted->takes_parts || in_.left > wanted->bytes - wanted->done) {
    fail(ConnectionProblem::kMalformed, "more bytes than were offered");
    return;
  }
  in_.message = static_cast<int>(Handle::of(frame.id).index);
  in_.to = wanted->data + wanted->done;
}

void Connection::begin_gone(const Frame& frame) {
  const Message* wanted = find(frame.id);
  if (wanted != nullptr && wanted->state == MessageState::kReceiving) {
    fail(ConnectionProblem::kGivenUp, "the sender cancelled it");
  }
}

void Connection::end_payload() {
  if (in_.frame.kind == FrameKind::kAbort) {
    fail(ConnectionProblem::kTold, told_);
  } else if (in_.message >= 0) {
    const Message& wanted = message(in_.message);
    if (in_.frame.kind == FrameKind::kEager || wanted.done == wanted.bytes) finish(in_.message);
  } else if (in_.arrival >= 0) {
    Arrival& kept = arrivals_[static_cast<std::size_t>(in_.arrival)];
    kept.complete = true;
    if (kept.claimed_by >= 0) {
      const Message& wanted = message(kept.claimed_by);
      std::memcpy(wanted.data, store_of(in_.arrival), static_cast<std::size_t>(wanted.bytes));
      finish(kept.claimed_by);
    }
    if (kept.claimed_by != -1) forget(in_.arrival);
  }
  in_ = {};
}

// Keeps a message that nobody has asked for.
int Connection::keep(const Frame& frame) {
  if (free_arrivals_.empty()) {
    fail(ConnectionProblem::kMalformed, "more messages than it was told there is room for");
    return -1;
  }
  const int arrival = free_arrivals_.back();
  free_arrivals_.pop_back();
  arrivals_[static_cast<std::size_t>(arrival)] = {.frame = frame};
  arrival_order_.push_back(arrival);
  return arrival;
}

void Connection::forget(int arrival) {
  arrivals_[static_cast<std::size_t>(arrival)] = {};
  arrival_order_.erase(std::find(arrival_order_.begin(), arrival_order_.end(), arrival));
  free_arrivals_.push_back(arrival);
  give_credit();
}

void Connection::give_credit() {
  if (++owed_ < kCreditStep) return;
  push_control({.kind = FrameKind::kCredit, .bytes = static_cast<std::uint64_t>(owed_)});
  owed_ = 0;
}

}  // namespace hethub
