#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hethub/comm/message.h"

namespace hethub {

enum class FlightKind : std::uint8_t { kCollective, kSend, kRecv };
enum class FlightState : std::uint8_t { kUnderWay, kDone, kFailed };

/// One operation of a rank.
struct FlightRecord {
  std::uint64_t number = 0;  ///< counts the rank's operations, from 1
  FlightKind kind = FlightKind::kCollective;
  FlightState state = FlightState::kUnderWay;
  Tag tag = {};            ///< group, sequence number, and of a collective what it does
  int peer = -1;           ///< of a message
  std::int64_t bytes = 0;  ///< of all messages of this rank in it, both ways
  std::int64_t done = 0;   ///< of messages that have ended
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  ///< 0: under way
};

/// The last operations of a rank, in memory of a fixed size: what it did, and how far it came, when
/// a job stands still or fails. Allocates only in records(). An operation that so many others have
/// followed is forgotten, even if it has not ended.
///
/// Threads: any; an operation's own calls one at a time.
class FlightRecorder {
 public:
  static constexpr std::size_t kKept = 512;

  /// Notes an operation that begins; gives its number for the calls below.
  std::uint64_t begin(FlightKind kind, Tag tag, int peer, std::int64_t bytes) noexcept;

  /// Adds to its bytes done.
  void advance(std::uint64_t number, std::int64_t bytes) noexcept;

  /// Notes its end. One that is done has all its bytes done.
  void end(std::uint64_t number, FlightState state) noexcept;

  /// Those that are kept, the oldest first.
  std::vector<FlightRecord> records() const;

  /// On the clock of the records.
  static std::int64_t now_ns() noexcept;

 private:
  // Written while others read: the number is 0 meanwhile, and read once more afterwards.
  struct Slot {
    std::atomic<std::uint64_t> number = 0;
    std::atomic<FlightKind> kind = {};
    std::atomic<FlightState> state = {};
    std::atomic<int> peer = -1;
    std::atomic<std::uint64_t> match = 0;
    std::atomic<std::uint64_t> check = 0;
    std::atomic<std::int64_t> bytes = 0;
    std::atomic<std::int64_t> done = 0;
    std::atomic<std::int64_t> begin_ns = 0;
    std::atomic<std::int64_t> end_ns = 0;
  };

  Slot& slot_of(std::uint64_t number) { return slots_[number % kKept]; }

  std::array<Slot, kKept> slots_ = {};
  std::atomic<std::uint64_t> last_ = 0;
};

std::string_view name_of(FlightState state);

/// A collective that its caller waits for at once: it has failed unless it is said to be done.
class FlightNote {
 public:
  FlightNote(FlightRecorder& recorder, Tag tag, std::int64_t bytes)
      : recorder_(recorder), number_(recorder.begin(FlightKind::kCollective, tag, -1, bytes)) {}
  ~FlightNote() { recorder_.end(number_, done_ ? FlightState::kDone : FlightState::kFailed); }
  FlightNote(const FlightNote&) = delete;
  FlightNote& operator=(const FlightNote&) = delete;
  void done() { done_ = true; }

 private:
  FlightRecorder& recorder_;
  std::uint64_t number_;
  bool done_ = false;
};

}  // namespace hethub
