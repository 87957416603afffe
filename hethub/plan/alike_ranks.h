#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "hethub/plan/rank_plan.h"

namespace hethub {

/// Tells apart ranks whose RankPlans differ in more than names, numbers and neighbours: identical
/// replicas, and stages of as many layers with as many micro-batches alive, are alike. With
/// overlap, when buckets are ready tells ranks apart, too: by their stage and their micro-batches.
class RankSignatures {
 public:
  /// Of a plan that validate() has passed; `segments` are segments_of it. Keeps references.
  RankSignatures(const Plan& plan, const ModelConfig& model, const std::vector<Segment>& segments);

  /// Equal for two ranks, of this plan or of another of the same model and sequence length, that
  /// have arenas of one size and, on one kind, ops of one cost. What a group op costs depends on
  /// the links between the members besides.
  std::string of(const RankPosition& at);

  /// Equal for two ranks whose arenas differ in the number of their lanes at most.
  std::string but_for_lanes(const RankPosition& at);

  /// The micro-batches alive at once on a rank, for each of its programs.
  const std::vector<int>& lanes_of(const RankPosition& at) {
    return timing_of(at.pipeline).alive[at.stage];
  }

  /// The schedule of a pipeline; those with as many stages and micro-batches share it.
  const Schedule& schedule_of(int pipeline) { return timing_of(pipeline).schedule; }

 private:
  struct Timing {
    Schedule schedule = {};
    std::vector<std::vector<int>> alive = {};  // by worker: the lanes of each program
  };

  const Timing& timing_of(int pipeline);

  const Plan& plan_;
  const ModelConfig& model_;
  TensorLayout layout_;
  std::vector<std::string> held_;  // by rank: its parts of the segments
  // By stages, micro-batches and virtual stages.
  std::map<std::tuple<std::size_t, int, std::size_t>, Timing> timings_;
};

/// The rank plans of a plan, each kept once for all ranks that are alike: their names, numbers,
/// `position`, `groups` and segments are those of the first.
struct RankPlans {
  std::vector<RankPlan> distinct = {};
  std::vector<int> index_of_rank = {};  ///< into `distinct`

  const RankPlan& of(int rank) const { return distinct.at(index_of_rank.at(rank)); }
};

/// Builds what is distinct of a plan that validate() has passed; `segments` are segments_of it.
RankPlans distinct_rank_plans(const Plan& plan, const ModelConfig& model,
                              const std::vector<Segment>& segments);

}  // namespace hethub
