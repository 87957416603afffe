#include <algorithm>
#include <utility>

#include <sched.h>

#include "hethub/comm/messenger.h"

// Who moves the bytes of a Messenger, and how its callers wait.
//
// A caller that waits drives: it looks again and again, then sleeps in a place of its own where it
// is told first. The progress thread meanwhile is parked, so that no message wakes a thread that
// only hands it on. It takes over when no caller has come for a moment: they compute.

namespace hethub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGoodbyeTime = std::chrono::seconds(2);
// A caller looks for so long before it gives its core away between two looks; less where other
// ranks wait for the core.
constexpr auto kLooks = std::chrono::microseconds(20);
constexpr auto kCrowdedLooks = std::chrono::microseconds(1);
// It sleeps after so long.
constexpr auto kYields = std::chrono::microseconds(300);
// A core given away that comes back so late is wanted by others; a sleeper is then woken sooner
// than one that keeps asking.
constexpr auto kBusy = std::chrono::microseconds(50);
// Callers that have not waited for so long compute.
constexpr auto kTick = std::chrono::microseconds(200);
// Looks at the waited-for peer between two at the clock, at all, and at the sockets.
constexpr int kClockRounds = 16;
constexpr int kPeersRounds = 4;
constexpr int kSocketRounds = 64;

void pause_core() { __builtin_ia32_pause(); }

}  // namespace

// ---- waiting
// --------------------------------------------------------------------------------------

void Messenger::wait(Handle handle, Deadline deadline, Operation operation) {
  Lock lock(mutex_);
  if (ended(handle)) return;
  const int peer = table_.find(handle)->peer;
  const Connection& connection = *connections_[static_cast<std::size_t>(peer)];
  bool done = false;
  drive(lock, peer, deadline, [&] { return done = done || ended(handle) || connection.left(); });
  if (table_.find(handle) == nullptr || ended(handle)) return;
  check(lock, handle, operation);
  set_failure(timeout_of(handle, operation));
  table_.release(static_cast<int>(handle.index));
  await_verdict(lock);
  throw Error(*failure_);
}

void Messenger::wait_for_change(std::uint64_t seen, Deadline until) {
  Lock lock(mutex_);
  drive(lock, -1, until, [&] { return changes_ != seen; });
  await_verdict(lock);
  if (failure_) throw Error(*failure_);
}

// Moves bytes until `done()`, a failure or the deadline.
template <typename Done>
void Messenger::drive(Lock& lock, int peer, Deadline until, const Done& done) {
  look(peer, 0);
  if (done() || failure_) return;
  ++drives_;
  bool slept = false;
  while (!done() && !failure_) {
    spin(lock, peer, until, done);
    if (done() || failure_ || Clock::now() >= until) break;
    slept = true;
    if (sleeping_) {
      ended_.wait_until(lock, until);
    } else {
      sleep(lock, until, done);
    }
  }
  if (!slept) return;
  parking_.notify_all();  // nobody watches now
  ended_.notify_all();    // another caller may have to sleep for all
}

template <typename Done>
void Messenger::spin(Lock& lock, int peer, Deadline until, const Done& done) {
  ++spinning_;
  update_attention();
  auto begin = Clock::now();
  auto now = begin;
  const auto looks = crowded_ ? kCrowdedLooks : kLooks;
  bool late = false;
  for (int round = 1; !done() && !failure_ && !late; ++round) {
    const bool yields = now - begin > looks;
    if (yields) take_over();
    lock.unlock();
    yields ? static_cast<void>(::sched_yield()) : pause_core();
    lock.lock();
    look(peer, round);
    if (!yields && round % kClockRounds != 0) continue;
    const auto before = std::exchange(now, Clock::now());
    if (busy()) begin = now;
    late =
        now >= until || now - begin > kYields || (yields && begin != now && now - before > kBusy);
  }
  --spinning_;
  update_attention();
}

template <typename Done>
void Messenger::sleep(Lock& lock, Deadline until, const Done& done) {
  take_over();
  sleeping_ = true;
  update_attention();
  if (!done() && !failure_ && !busy()) look_at_events(until, &lock);
  sleeping_ = false;
  update_attention();
}

void Messenger::look(int peer, int round) {
  if (peer >= 0) pump(peer);
  if (peer < 0 || round % kPeersRounds == kPeersRounds - 1) pump_attended();
  if (round % (peer < 0 ? kPeersRounds : kSocketRounds) == 1) look_at_events({}, nullptr);
}

void Messenger::look_at_events(Deadline until, Lock* unlocked_meanwhile) {
  SleepingPlace::Numbers numbers = {};
  std::span<const int> peers;
  do {
    if (unlocked_meanwhile != nullptr) unlocked_meanwhile->unlock();
    peers = callers_place_.sleep(numbers, until);
    if (unlocked_meanwhile != nullptr) unlocked_meanwhile->lock();
    handle_events(peers);
    until = {};
  } while (peers.size() == numbers.size());
}

// ---- progress
// -------------------------------------------------------------------------------------

void Messenger::pump(int peer) {
  Connection* connection = connections_[static_cast<std::size_t>(peer)].get();
  if (connection == nullptr) return;
  const std::uint64_t before = connection->completed();
  const bool left = connection->left();
  connection->pump();
  after_pump(peer, before, left);
}

// Tells those who wait of what the connection has found.
void Messenger::after_pump(int peer, std::uint64_t completed_before, bool left_before) {
  const Connection& connection = *connections_[static_cast<std::size_t>(peer)];
  if (connection.problem() != ConnectionProblem::kNone && !failure_) set_failure(error_of(peer));
  if (connection.completed() != completed_before || connection.left() != left_before) {
    tell_waiting();
  }
}

void Messenger::pump_attended() {
  for (const int peer : attendable_) {
    pump(peer);
  }
}

// Whether a message is being copied.
bool Messenger::busy() const {
  return std::any_of(attendable_.begin(), attendable_.end(), [this](int peer) {
    return connections_[static_cast<std::size_t>(peer)]->busy();
  });
}

// Copies while no caller does.
void Messenger::copy_on(Lock& lock) {
  while (busy() && spinning_ == 0 && !closing_) {
    pump_attended();
    lock.unlock();
    ::sched_yield();
    lock.lock();
  }
}

// Peers wake this rank unless somebody looks for what they send.
void Messenger::update_attention() {
  const bool wanted = spinning_ > 0 || (callers_drive_ && !sleeping_);
  if (wanted == attended_) return;
  attended_ = wanted;
  for (const int peer : attendable_) {
    connections_[static_cast<std::size_t>(peer)]->wire().attend(wanted);
  }
  // What came while nobody was to be woken.
  if (!wanted) pump_attended();
}

// Parks the progress thread.
void Messenger::take_over() {
  if (std::exchange(callers_drive_, true)) return;
  thread_place_.wake();
}

void Messenger::run_progress() {
  SleepingPlace::Numbers numbers = {};
  Lock lock(mutex_);
  while (!closing_) {
    if (callers_drive_) {
      park(lock);
      continue;
    }
    lock.unlock();
    const std::span<const int> peers = thread_place_.sleep(numbers, Deadline::max());
    lock.lock();
    handle_events(peers);
    copy_on(lock);
  }
}

// Rests while callers drive; takes over when none has come during a tick.
void Messenger::park(Lock& lock) {
  const std::uint64_t seen = drives_;
  if (sleeping_) {
    parking_.wait(lock, [this] { return closing_ || !sleeping_; });
  } else {
    parking_.wait_for(lock, kTick, [this] { return closing_; });
  }
  if (spinning_ > 0 || sleeping_) return;
  if (drives_ == seen) callers_drive_ = false;
  pump_attended();
  look_at_events({}, nullptr);
  update_attention();
  copy_on(lock);
}

void Messenger::handle_events(std::span<const int> peers) {
  for (const int peer : peers) {
    connections_[static_cast<std::size_t>(peer)]->wire().awoken();
    pump(peer);
  }
}

bool Messenger::all_said_goodbye() const {
  for (const auto& connection : connections_) {
    if (connection != nullptr && !connection->goodbye_seen() && !connection->dead()) return false;
  }
  return true;
}

// Closing at once could make the kernel throw away what the peer has not read.
void Messenger::say_goodbye() {
  Lock lock(mutex_);
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->say_goodbye();
  }
  const Deadline deadline = Clock::now() + kGoodbyeTime;
  while (!all_said_goodbye() && Clock::now() < deadline) {
    ended_.wait_for(lock, std::chrono::milliseconds(5));
  }
}

}  // namespace hethub
