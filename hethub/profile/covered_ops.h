#pragma once

#include <cstdint>
#include <vector>

#include "hethub/model/config.h"
#include "hethub/op/op.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/rank_plan.h"

namespace hethub {

/// For which plans costs are wanted.
struct CoveredPlans {
  std::int64_t sequence_length = 128;
  std::vector<int> micro_batch_sizes = {1, 2, 4};
  std::vector<int> tensor_widths = {};  ///< over 1; those that do not divide the heads are left out
};

/// Plans that between them run every op of any plan on this model with these micro-batches: one
/// rank for each micro-batch size, two stages cut after each layer, two replicas, and one of each
/// tensor-parallel width beside one of width 1. Ops on flat
/// ranges (norms, updates, sums of collectives) occur here in a few sizes; other plans' are scaled.
std::vector<Plan> covering_plans(const ModelConfig& model, const CoveredPlans& covered);

/// Every op that a rank runs in a step by itself, sums in collectives included, as often as it is
/// listed; group ops, which are collectives, are not.
std::vector<Op> ops_of(const RankPlan& rank, const std::vector<Segment>& segments);

/// The distinct ops of these plans' ranks, each once, in the order of first use. Ops that differ in
/// name alone are one.
std::vector<Op> distinct_ops(const std::vector<Plan>& plans, const ModelConfig& model);

}  // namespace hethub
