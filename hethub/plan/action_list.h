#pragma once

#include <utility>
#include <vector>

#include "hethub/plan/schedule.h"

namespace hethub {

/// One worker's list of actions while a schedule is written: each computation with the messages
/// that its neighbours along the pipeline expect around it.
class ActionList {
 public:
  /// Of a pipeline of `positions`.
  explicit ActionList(int positions) : last_(positions - 1) {}

  /// What the actions that follow have in common.
  struct Common {
    int direction = 0;
    int weight_version = 0;
  };
  void use(Common common) { common_ = common; }

  void forward(int position, int micro_batch) {
    if (position > 0) add(ActionKind::kRecvActivation, position, micro_batch);
    add(ActionKind::kForward, position, micro_batch);
    if (position < last_) add(ActionKind::kSendActivation, position, micro_batch);
  }

  void backward(int position, int micro_batch) {
    backward_as(ActionKind::kBackward, position, micro_batch);
  }

  /// The half of the backward pass that the position before waits for.
  void backward_input(int position, int micro_batch) {
    backward_as(ActionKind::kBackwardInput, position, micro_batch);
  }

  /// The other half.
  void backward_weight(int position, int micro_batch) {
    add(ActionKind::kBackwardWeight, position, micro_batch);
  }

  /// The optimizer alone, for schedules that do not wait for other workers.
  void update(int position, int micro_batch) { add(ActionKind::kUpdate, position, micro_batch); }

  /// What ends each worker's step; `position` is one that it holds.
  void finish_step(int position) {
    for (const ActionKind kind : step_actions()) {
      actions_.push_back({.kind = kind, .position = position});
    }
  }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  void backward_as(ActionKind kind, int position, int micro_batch) {
    if (position < last_) add(ActionKind::kRecvGradient, position, micro_batch);
    add(kind, position, micro_batch);
    if (position > 0) add(ActionKind::kSendGradient, position, micro_batch);
  }

  void add(ActionKind kind, int position, int micro_batch) {
    actions_.push_back({.kind = kind,
                        .direction = common_.direction,
                        .position = position,
                        .micro_batch = micro_batch,
                        .weight_version = common_.weight_version});
  }

  int last_;
  Common common_ = {};
  std::vector<Action> actions_ = {};
};

}  // namespace hethub
