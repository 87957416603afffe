#pragma once

#include <functional>

#include "hethub/plan/schedule.h"

namespace hethub {

/// What a worker can do. `train` implements it on a Backend and a Communicator; tests implement it
/// with a notebook.
class StageWorker {
 public:
  virtual ~StageWorker() = default;

  /// Runs the part of the program that `what` names: a forward or a backward.
  virtual void compute(const Action& what) = 0;

  /// Starts a message to `to`; must not wait for the far end.
  virtual void send(const Action& what, const WorkerAction& to) = 0;

  /// Returns once the message from `from` is in place.
  virtual void recv(const Action& what, const WorkerAction& from) = 0;

  /// Does what concerns the step as a whole: a sync or the update.
  virtual void finish_step(const Action& what) = 0;
};

/// Told after each action, in seconds_now(); null to record nothing. `slot` is the action's
/// position in the worker's list.
using ActionObserver = std::function<void(int slot, double begin_s, double end_s)>;

/// Performs a worker's actions of one step, in order, on the calling thread. An error from the
/// worker ends the step and is passed on unchanged.
void execute(const Schedule& schedule, int worker, StageWorker& stage,
             const ActionObserver& observer = nullptr);

}  // namespace hethub
