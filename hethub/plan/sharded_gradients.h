#pragma once

#include <vector>

#include "hethub/plan/optimizer_ops.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/segments.h"
#include "hethub/program/program.h"

namespace hethub {

/// Whether ZeRO 2 may shard the gradients of a plan: its pipelines have the same stages, widths and
/// micro-batches, so that all holders come to each sum in the same order. Kinds, copies, recompute
/// and the sizes of micro-batches may differ.
bool may_shard_gradients(const Plan& plan);

/// How a rank shares the gradients that its segments say are `scattered` (ZeRO 2).
struct GradientShares {
  std::vector<std::vector<int>> groups = {};  ///< of ranks, in the order of the segments
  std::vector<int> group_of_held = {};        ///< by held segment: position in `groups`; -1: none
};
GradientShares gradient_shares(const std::vector<Segment>& segments,
                               const std::vector<Holding>& held);

/// One parameter whose gradient a rank keeps a part of.
struct ScatteredGradient {
  int parameter = -1;  ///< value of the program
  int group = 0;       ///< see GroupStart::group
  int ranks = 1;
  std::int64_t kept = 0;  ///< elements, see part_of
};

/// Rewrites a differentiated program: the parameter's kGradient value becomes the kept part. What a
/// micro-batch adds goes into a temporary that begins as zeros and, once complete, is summed over
/// the group, each part at its owner, which adds it to its own.
/// Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
/// models", SC 2020.
void scatter_gradient(Program& program, const ScatteredGradient& scattered);

}  // namespace hethub
