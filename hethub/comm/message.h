#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hethub/comm/wire.h"

namespace hethub {

/// Pairs a receive with its send. Messages of one `match` between two ranks keep their order.
/// `check` must then be equal on both ends; it says what the sender meant, so that ranks that call
/// different operations are told so. Who uses which bits is stated in comm/tags.h.
struct Tag {
  std::uint64_t match = 0;
  std::uint64_t check = 0;
};

/// A message under way. A handle of a message that has ended stays valid, and says so.
struct Handle {
  std::uint32_t index = ~0U;
  std::uint32_t generation = 0;

  std::uint64_t id() const { return (std::uint64_t{generation} << 32U) | index; }
  static Handle of(std::uint64_t id) {
    return {.index = static_cast<std::uint32_t>(id),
            .generation = static_cast<std::uint32_t>(id >> 32U)};
  }
};

enum class MessageState : std::uint8_t {
  kFree,
  kQueued,     ///< a send whose first frame is not written yet
  kOffered,    ///< a large send that waits until the receiver has a place for it
  kSending,    ///< its bytes are being written
  kPosted,     ///< a receive that nothing has matched
  kReceiving,  ///< a receive whose bytes arrive
  kDone,
  kFailed,  ///< the job failed first; its memory is not touched any more
};

inline constexpr std::uint64_t kVoidStamp = ~std::uint64_t{0};

/// The state of one message at one end.
struct Message {
  MessageState state = MessageState::kFree;
  int peer = -1;
  bool sends = false;
  bool takes_parts = false;  ///< of a receive: its sender was told to send it
  Tag tag = {};
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  std::int64_t done = 0;
  std::uint64_t partner = 0;  ///< the other end's id for it, once it is offered and cleared
  PeerMemory source = {};     ///< of a receive: where it can be pulled from
  /// Of a send that is offered and may be pulled: its id. Otherwise kVoidStamp, which is no id.
  std::uint64_t stamp = kVoidStamp;
  std::uint32_t generation = 0;
  int next = -1;  ///< the next in whichever queue it stands
};

/// A first-in, first-out list of messages, threaded through them.
class MessageQueue {
 public:
  explicit MessageQueue(std::vector<Message>& messages) : messages_(messages) {}

  bool empty() const { return head_ < 0; }
  int front() const { return head_; }

  void push(int index) {
    at(index).next = -1;
    (tail_ < 0 ? head_ : at(tail_).next) = index;
    tail_ = index;
  }

  int pop() {
    const int index = head_;
    head_ = at(index).next;
    if (head_ < 0) tail_ = -1;
    return index;
  }

  /// Takes out the first for which `wanted(message)` holds; -1 if there is none.
  template <typename Wanted>
  int take(const Wanted& wanted) {
    int before = -1;
    for (int index = head_; index >= 0; before = index, index = at(index).next) {
      if (!wanted(at(index), index)) continue;
      (before < 0 ? head_ : at(before).next) = at(index).next;
      if (tail_ == index) tail_ = before;
      return index;
    }
    return -1;
  }

 private:
  Message& at(int index) { return messages_[static_cast<std::size_t>(index)]; }

  std::vector<Message>& messages_;
  int head_ = -1;
  int tail_ = -1;
};

/// A fixed number of messages, so that a message under way allocates nothing.
class MessageTable {
 public:
  explicit MessageTable(int size) : messages_(static_cast<std::size_t>(size)), free_(messages_) {
    for (int index = 0; index < size; ++index) {
      free_.push(index);
    }
  }

  std::vector<Message>& all() { return messages_; }
  const std::vector<Message>& all() const { return messages_; }
  bool full() const { return free_.empty(); }

  /// Precondition: not full().
  int take() { return free_.pop(); }

  /// The message of a handle, or null if it has ended.
  Message* find(Handle handle) {
    if (handle.index >= messages_.size()) return nullptr;
    Message& message = messages_[handle.index];
    const bool ended =
        message.generation != handle.generation || message.state == MessageState::kFree;
    return ended ? nullptr : &message;
  }

  Handle handle_of(int index) const {
    return {.index = static_cast<std::uint32_t>(index),
            .generation = messages_[static_cast<std::size_t>(index)].generation};
  }

  void release(int index) {
    Message& message = messages_[static_cast<std::size_t>(index)];
    message.state = MessageState::kFree;
    message.stamp = kVoidStamp;
    ++message.generation;
    free_.push(index);
  }

 private:
  std::vector<Message> messages_;
  MessageQueue free_;
};

}  // namespace hethub
