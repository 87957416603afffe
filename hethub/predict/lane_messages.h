#pragma once

#include <vector>

#include "hethub/plan/schedule.h"

namespace hethub {

/// The messages that a worker has sent from each of its lanes and not waited for. A lane takes its
/// next micro-batch once those of the one before have left: they are read from it until then
/// (docs/decisions/0010).
class LaneMessages {
 public:
  LaneMessages(const Schedule& schedule, int worker);

  /// Whether the action is one before which a lane must be free: what arrives or is computed first.
  static bool takes_lane(const Action& action) {
    return action.kind == ActionKind::kRecvActivation || action.kind == ActionKind::kForward;
  }

  /// Notes a message of a send.
  void add(const Action& send, int message) { of(send).push_back(message); }

  /// The messages to wait for before such an action; they count as gone from then on.
  std::vector<int> free_lane(const Action& action);

  /// All that are left: none may be on its way once gradients are checked.
  std::vector<int> free_all();

 private:
  struct Position {
    int direction = 0;
    int position = 0;
    LaneUse lanes = {};
    std::vector<std::vector<int>> sent = {};  // by lane
  };

  std::vector<int>& of(const Action& action);

  std::vector<Position> positions_ = {};
};

}  // namespace hethub
