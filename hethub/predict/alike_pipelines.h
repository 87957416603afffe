#pragma once

#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// By pipeline, the first one that is alike: as many micro-batches, and stages of the same kinds,
/// layers and recompute over links inside or between nodes at the same places. `devices` are
/// cluster_ranks_of the plan.
std::vector<int> first_alike(const Plan& plan, const std::vector<RankPlace>& cluster,
                             const std::vector<int>& devices);

}  // namespace hethub
