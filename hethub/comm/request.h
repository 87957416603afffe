#pragma once

#include <span>
#include <utility>

#include "hethub/base/deadline.h"

namespace hethub {

/// What a Request asks: a message of a DevicePort, or a run of a collective. One that throws has
/// ended, as a cancelled one has: neither a message nor work of the device's queue touches its
/// memory any more. Whoever started the work waits for the device before it says so.
class Pending {
 public:
  virtual bool test(int index) = 0;
  virtual void wait(int index, Deadline deadline) = 0;
  virtual void cancel(int index) noexcept = 0;

 protected:
  ~Pending() = default;
};

/// A message or collective under way. Destroying it before it has ended cancels it. What started it
/// (the DevicePort, the Communicator or the PreparedCollective) outlives it.
/// Threads: that of the port's queue.
class [[nodiscard]] Request {
 public:
  /// One that has ended.
  Request() = default;
  Request(Pending* pending, int index) : pending_(pending), index_(index) {}
  Request(Request&& other) noexcept
      : pending_(std::exchange(other.pending_, nullptr)), index_(other.index_) {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      cancel();
      pending_ = std::exchange(other.pending_, nullptr);
      index_ = other.index_;
    }
    return *this;
  }
  ~Request() { cancel(); }

  /// Whether it has ended; never blocks. Once it has, work queued later on the port's queue sees
  /// what arrived. A collective moves on only while one of its rank's requests is tested or waited
  /// for.
  bool test() {
    Pending* const asked = std::exchange(pending_, nullptr);
    if (asked == nullptr || asked->test(index_)) return true;
    pending_ = asked;
    return false;
  }

  /// Waits until it has ended. Throws as Messenger::wait does; then its memory is free, for which a
  /// device that still works on it is waited for past the deadline (DevicePortOptions).
  void wait(Deadline deadline) {
    if (pending_ != nullptr) std::exchange(pending_, nullptr)->wait(index_, deadline);
  }

  /// Ends it; its memory is free afterwards. What a cancelled receive leaves in its memory is
  /// undefined. A collective cannot be left by one member alone: cancelling one that has not ended
  /// is the job's failure, which names this rank.
  void cancel() noexcept {
    if (pending_ != nullptr) std::exchange(pending_, nullptr)->cancel(index_);
  }

 private:
  Pending* pending_ = nullptr;
  int index_ = -1;
};

/// Waits for all of them; they may end in any order.
inline void wait_all(std::span<Request> requests, Deadline deadline) {
  for (Request& request : requests) {
    request.wait(deadline);
  }
}

}  // namespace hethub
