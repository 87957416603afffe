#pragma once

#include "hethub/plan/plan.h"

namespace hethub {

/// Calls `use(position, rank)` for each rank of the plan: by pipeline, stage and place.
template <typename Use>
void for_each_rank(const Plan& plan, const Use& use) {
  for (int pipeline = 0; pipeline < std::ssize(plan.pipelines); ++pipeline) {
    const std::vector<Stage>& stages = plan.pipelines[pipeline].stages;
    for (int stage = 0; stage < std::ssize(stages); ++stage) {
      for (int place = 0; place < std::ssize(stages[stage].ranks); ++place) {
        use(RankPosition{pipeline, stage, place}, stages[stage].ranks[place]);
      }
    }
  }
}

}  // namespace hethub
