#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hethub/base/deadline.h"
#include "hethub/base/error.h"
#include "hethub/comm/connection.h"
#include "hethub/comm/control.h"
#include "hethub/comm/flight_recorder.h"
#include "hethub/comm/message.h"
#include "hethub/comm/sleeping_place.h"
#include "hethub/comm/wire.h"

namespace hethub {

/// What a wait is part of, for messages: "all_reduce #7".
struct Operation {
  std::string_view name = {};
  std::int64_t number = -1;  ///< -1: it has none
};

struct MessengerOptions {
  int rank = 0;
  std::vector<std::string> hosts = {};  ///< of each rank, for messages; its size is the world size
  int messages = 1024;                  ///< most that may be under way at once
  /// Spells a Tag for people, where two ranks called different operations or one is lost.
  std::function<std::string(Tag tag)> describe = {};
};

/// Messages between the ranks of the world. Here, above all transports, stand waiting, deadlines,
/// cancelling and the detection of failure:
/// - a send never waits for the far end: a progress thread moves bytes while the caller computes.
///   A caller that waits moves them itself: it looks for a while, gives its core away between
///   looks, then sleeps;
/// - a wait ends with its message, at its deadline, or with the first failure anywhere in the job;
/// - the first failure (a peer that is gone, a deadline, a mismatch, `abort`) is told to all ranks,
///   and every later call throws it, so that all stop with the same cause.
/// Nothing is allocated once it is made, except to report a failure.
///
/// Threads: any.
class Messenger {
 public:
  /// `wires[rank]` leads to that rank; null for this rank itself.
  /// With `control`, rank 0 decides which failure was the first, for all ranks alike.
  Messenger(MessengerOptions options, std::vector<std::unique_ptr<Wire>> wires,
            std::unique_ptr<Control> control = nullptr);

  /// Says goodbye and gives the peers two seconds to read what was sent.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  int rank() const { return options_.rank; }
  int world_size() const { return static_cast<int>(options_.hosts.size()); }

  /// "rank 2 (host b)".
  std::string name_of(int rank) const;

  /// How the bytes to a peer travel: "shm" or "tcp"; "none" to one that no data go to.
  std::string_view transport_to(int peer) const;

  /// Both return at once. The memory must stay alive, and a sent one unchanged, until the message
  /// has ended. Throws the failure if the job has failed; kOutOfMemory above options.messages.
  Handle post_send(int peer, Tag tag, std::span<const std::byte> from);
  Handle post_recv(int peer, Tag tag, std::span<std::byte> to);

  /// Whether the message has ended. Never blocks; throws the failure if the job has failed.
  bool test(Handle handle, Operation operation);

  /// Waits until the message has ended. Throws the failure; kTimeout at the deadline, which is then
  /// the job's failure. After a failure no message's memory is touched any more.
  void wait(Handle handle, Deadline deadline, Operation operation);

  /// Grows whenever a message has ended, a peer has left or the job has failed.
  std::uint64_t changes() const;

  /// Waits until changes() is no longer `seen`, or until `until`. Throws the failure if there is
  /// one.
  void wait_for_change(std::uint64_t seen, Deadline until);

  /// Forgets a message that has not ended. Its memory is not touched afterwards.
  void cancel(Handle handle) noexcept;

  /// Makes `error` the job's failure, if it is the first, and tells all ranks.
  void abort(const Error& error) noexcept;

  /// The job's failure, if there is one.
  std::optional<Error> failure();

  /// Where who starts operations on this messenger notes them.
  FlightRecorder& recorder() { return recorder_; }

  /// What this rank did, for people: a line for each of its last operations, at most so many, and
  /// for each message that is under way now, or was when the job failed.
  std::string flight_text(std::size_t most = FlightRecorder::kKept) const;

  /// The control connections; null where there are none.
  Control* control() const { return control_.get(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  Handle post(int peer, Tag tag, std::byte* data, std::int64_t bytes, bool sends);
  void check(Lock& lock, Handle handle, Operation operation);
  [[noreturn]] void throw_failure(Handle handle, Operation operation);
  Error timeout_of(Handle handle, Operation operation);
  Error error_of(int peer) const;
  std::string mismatch_text(int peer) const;
  std::string under_way_with(int peer) const;
  Tag collective_under_way() const;
  void set_failure(const Error& error);
  void fail_all(const Error& error);
  void settle(const Error& verdict);
  void await_verdict(Lock& lock);
  void tell_waiting();
  bool ended(Handle handle);

  // messenger_flight.cpp
  std::string spelled(Tag tag) const;
  std::string line_of(const FlightRecord& record, std::int64_t now_ns) const;
  std::string messages_under_way() const;

  // messenger_progress.cpp
  void pump(int peer);
  void after_pump(int peer, std::uint64_t completed_before, bool left_before);
  void pump_attended();
  bool busy() const;
  void copy_on(Lock& lock);
  void update_attention();
  template <typename Done>
  void drive(Lock& lock, int peer, Deadline until, const Done& done);
  template <typename Done>
  void spin(Lock& lock, int peer, Deadline until, const Done& done);
  template <typename Done>
  void sleep(Lock& lock, Deadline until, const Done& done);
  void look(int peer, int round);
  void take_over();
  void look_at_events(Deadline until, Lock* unlocked_meanwhile);
  void run_progress();
  void park(Lock& lock);
  void handle_events(std::span<const int> peers);
  void say_goodbye();
  bool all_said_goodbye() const;

  MessengerOptions options_;
  MessageTable table_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::optional<Error> failure_ = {};
  std::string under_way_at_failure_ = {};
  FlightRecorder recorder_ = {};
  bool settled_ = false;  // failure_ is the verdict for all ranks
  std::uint64_t changes_ = 0;
  bool closing_ = false;

  // Who moves the bytes: the progress thread, or the callers while they come back often enough.
  bool callers_drive_ = false;
  std::uint64_t drives_ = 0;          // grows with each wait that looked more than once
  int spinning_ = 0;                  // callers that look now
  bool sleeping_ = false;             // a caller sleeps in callers_place_; others wait for `ended_`
  bool attended_ = false;             // peers need not wake this rank
  bool crowded_ = false;              // this host has fewer cores than ranks
  std::vector<int> attendable_ = {};  // peers whose wires ask for attention
  SleepingPlace callers_place_;
  SleepingPlace thread_place_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::condition_variable parking_;
  std::condition_variable verdict_;
  std::thread progress_;
  std::unique_ptr<Control> control_;
};

}  // namespace hethub
