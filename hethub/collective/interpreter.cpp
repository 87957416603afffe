#include "hethub/collective/interpreter.h"

#include <algorithm>

namespace hethub {
namespace {

// Places or chunks [first, first + count) of a memory.
struct Extent {
  Memory memory = Memory::kData;
  int first = 0;
  int count = 0;

  bool overlaps(const Extent& other) const {
    return memory == other.memory && first < other.first + other.count &&
           other.first < first + count;
  }
};

Extent extent_of(const Slot& slot, int terms = 1) {
  const bool placed = slot.memory == Memory::kScratch;
  return {.memory = slot.memory,
          .first = placed ? slot.place : slot.chunk,
          .count = slot.chunks * terms};
}

// What a step does to memory. A reduce reads its target too, but writing it covers that.
struct Access {
  Extent read = {};
  Extent written = {};

  bool conflicts(const Access& later) const {
    return written.overlaps(later.read) || written.overlaps(later.written) ||
           read.overlaps(later.written);
  }
};

Access access_of(const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      return {.read = extent_of(step.from)};
    case StepKind::kRecv:
      return {.written = extent_of(step.to)};
    case StepKind::kReduce:
    case StepKind::kCopy:
      return {.read = extent_of(step.from, step.terms), .written = extent_of(step.to)};
  }
  return {};
}

}  // namespace

StepOrder::StepOrder(std::span<const Step> steps)
    : awaited_(steps.size() + 1), device_steps_(steps.size(), -1) {
  std::vector<int> under_way;
  std::vector<Access> accesses;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    kinds_.push_back(steps[at].kind);
    accesses.push_back(access_of(steps[at]));
    std::vector<int>& awaited = awaited_[at];
    std::erase_if(under_way, [&](int message) {
      const bool waits = accesses[static_cast<std::size_t>(message)].conflicts(accesses[at]);
      if (waits) awaited.push_back(message);
      return waits;
    });
    if (!is_message(steps[at].kind)) continue;
    under_way.push_back(static_cast<int>(at));
    for (std::size_t before = at; before-- > 0 && device_steps_[at] < 0;) {
      if (is_message(kinds_[before]) || !accesses[before].conflicts(accesses[at])) continue;
      device_steps_[at] = static_cast<int>(before);
    }
  }
  awaited_.back() = under_way;
}

std::span<const int> StepOrder::awaited(int step) const {
  return awaited_[static_cast<std::size_t>(step)];
}

bool Interpreter::advance(StepActions& actions) {
  while (await(actions)) {
    if (next_ == order_.steps()) return true;
    if (!take(actions)) return false;
    ++next_;
    awaited_ = 0;
  }
  return false;
}

// Whether the messages that the next step waits for have ended.
bool Interpreter::await(StepActions& actions) {
  const std::span<const int> awaited = order_.awaited(next_);
  while (awaited_ < awaited.size()) {
    waits_for_ = awaited[awaited_];
    if (!actions.ended(waits_for_)) return false;
    ++awaited_;
  }
  waits_for_ = -1;
  return true;
}

bool Interpreter::take(StepActions& actions) const {
  switch (order_.kind(next_)) {
    case StepKind::kSend:
      return actions.send(next_);
    case StepKind::kRecv:
      return actions.recv(next_);
    case StepKind::kReduce:
      actions.reduce(next_);
      return true;
    case StepKind::kCopy:
      actions.copy(next_);
      return true;
  }
  return true;
}

}  // namespace hethub
