#include "hethub/comm/flight_recorder.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace hethub {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

}  // namespace

std::int64_t FlightRecorder::now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::uint64_t FlightRecorder::begin(FlightKind kind, Tag tag, int peer,
                                    std::int64_t bytes) noexcept {
  const std::uint64_t number = last_.fetch_add(1, kRelaxed) + 1;
  Slot& slot = slot_of(number);
  slot.number.store(0, kRelaxed);
  slot.kind.store(kind, kRelease);  // who sees it sees that the number is gone
  slot.state.store(FlightState::kUnderWay, kRelease);
  slot.peer.store(peer, kRelease);
  slot.match.store(tag.match, kRelease);
  slot.check.store(tag.check, kRelease);
  slot.bytes.store(bytes, kRelease);
  slot.done.store(0, kRelease);
  slot.begin_ns.store(now_ns(), kRelease);
  slot.end_ns.store(0, kRelease);
  slot.number.store(number, kRelease);
  return number;
}

void FlightRecorder::advance(std::uint64_t number, std::int64_t bytes) noexcept {
  Slot& slot = slot_of(number);
  if (slot.number.load(kRelaxed) == number) slot.done.fetch_add(bytes, kRelaxed);
}

void FlightRecorder::end(std::uint64_t number, FlightState state) noexcept {
  Slot& slot = slot_of(number);
  if (slot.number.load(kRelaxed) != number) return;
  if (state == FlightState::kDone) slot.done.store(slot.bytes.load(kRelaxed), kRelaxed);
  slot.end_ns.store(now_ns(), kRelaxed);
  slot.state.store(state, kRelease);  // who sees it sees the time, too
}

std::vector<FlightRecord> FlightRecorder::records() const {
  std::vector<FlightRecord> all;
  for (const Slot& slot : slots_) {
    FlightRecord record{.number = slot.number.load(kAcquire)};
    record.kind = slot.kind.load(kAcquire);
    record.state = slot.state.load(kAcquire);
    record.peer = slot.peer.load(kAcquire);
    record.tag = {.match = slot.match.load(kAcquire), .check = slot.check.load(kAcquire)};
    record.bytes = slot.bytes.load(kAcquire);
    record.done = slot.done.load(kAcquire);
    record.begin_ns = slot.begin_ns.load(kAcquire);
    // It may have ended since its state was read.
    const bool ended = record.state != FlightState::kUnderWay;
    record.end_ns = ended ? slot.end_ns.load(kAcquire) : 0;
    const bool whole = slot.number.load(kRelaxed) == record.number;
    if (record.number > 0 && whole) all.push_back(record);
  }
  std::sort(all.begin(), all.end(), [](const FlightRecord& first, const FlightRecord& second) {
    return first.number < second.number;
  });
  return all;
}

std::string_view name_of(FlightState state) {
  switch (state) {
    case FlightState::kUnderWay:
      return "under way";
    case FlightState::kDone:
      return "done";
    case FlightState::kFailed:
      break;
  }
  return "failed";
}

}  // namespace hethub
