#pragma once

#include <span>
#include <vector>

#include "hethub/collective/algorithm.h"

namespace hethub {

/// What carries out one rank's steps: `comm` on a device and a wire, tests in memory. Steps are
/// named by their position in the list.
class StepActions {
 public:
  virtual ~StepActions() = default;

  /// Begin the message of a step. False: not now (the device still works, there is no room); the
  /// same step is then asked for again. Never block.
  virtual bool send(int step) = 0;
  virtual bool recv(int step) = 0;

  /// Whether the message of a step has ended. Not asked again once it has.
  virtual bool ended(int step) = 0;

  /// Queue work on the device, which does it in the order of the calls.
  virtual void reduce(int step) = 0;
  virtual void copy(int step) = 0;
};

/// In what order one rank's steps may happen: all that an interpreter must know of their slots.
class StepOrder {
 public:
  explicit StepOrder(std::span<const Step> steps);

  int steps() const { return static_cast<int>(kinds_.size()); }
  StepKind kind(int step) const { return kinds_[static_cast<std::size_t>(step)]; }

  /// The messages that must have ended before a step begins, each named for one step only.
  /// `steps()` names those that must have ended before the collective has.
  std::span<const int> awaited(int step) const;

  /// The last reduce or copy before a message whose memory the message touches; -1: none.
  int device_step(int step) const { return device_steps_[static_cast<std::size_t>(step)]; }

 private:
  std::vector<StepKind> kinds_ = {};
  std::vector<std::vector<int>> awaited_ = {};
  std::vector<int> device_steps_ = {};
};

/// Runs one rank's steps, as far as they go. It takes the steps in their order; each begins when
/// the messages before it that touch its memory have ended, so messages travel beside each other.
/// Allocates nothing. Threads: one at a time.
class Interpreter {
 public:
  /// `order` outlives it.
  explicit Interpreter(const StepOrder& order) : order_(order) {}

  /// Takes all steps that can be taken now; true when all have been and no message is under way.
  bool advance(StepActions& actions);

  /// After advance() has returned false: the message that it waits for, or -1 if `actions` could
  /// not begin the next.
  int waits_for() const { return waits_for_; }

 private:
  bool await(StepActions& actions);
  bool take(StepActions& actions) const;

  const StepOrder& order_;
  int next_ = 0;
  std::size_t awaited_ = 0;  // of the next step
  int waits_for_ = -1;
};

}  // namespace hethub
