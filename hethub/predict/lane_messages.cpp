#include "hethub/predict/lane_messages.h"

#include <algorithm>
#include <utility>

namespace hethub {

// Programs are counted as uses_of counts them: by direction and position.
LaneMessages::LaneMessages(const Schedule& schedule, int worker) {
  const std::vector<ProgramUse> uses = uses_of(schedule, worker);
  for (int direction = 0; direction < std::ssize(schedule.worker_of); ++direction) {
    for (int position = 0; position < schedule.positions(); ++position) {
      if (schedule.worker_of[direction][position] != worker) continue;
      Position& one = positions_.emplace_back(Position{direction, position});
      one.lanes = lanes_of(uses, static_cast<int>(positions_.size()) - 1);
      one.sent.resize(static_cast<std::size_t>(one.lanes.lanes));
    }
  }
}

std::vector<int>& LaneMessages::of(const Action& action) {
  const auto found = std::find_if(positions_.begin(), positions_.end(), [&](const Position& one) {
    return one.direction == action.direction && one.position == action.position;
  });
  return found->sent.at(found->lanes.lane_of_instance.at(action.micro_batch));
}

std::vector<int> LaneMessages::free_lane(const Action& action) {
  return std::exchange(of(action), {});
}

std::vector<int> LaneMessages::free_all() {
  std::vector<int> all;
  for (Position& one : positions_) {
    for (std::vector<int>& sent : one.sent) {
      all.insert(all.end(), sent.begin(), sent.end());
      sent.clear();
    }
  }
  return all;
}

}  // namespace hethub
