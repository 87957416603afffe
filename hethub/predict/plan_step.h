#pragma once

#include <array>
#include <vector>

#include "hethub/plan/plan.h"
#include "hethub/plan/segments.h"
#include "hethub/predict/step_builder.h"
#include "hethub/program/program.h"

namespace hethub {

/// What one micro-batch takes at a position: on a stage, or on one of its virtual stages.
struct StageNumbers {
  std::array<double, kPhases> phase_seconds = {};  ///< indexed by Phase
  double sent_bytes = 0;  ///< the activation that goes on to the next stage
};

/// When a rank begins to sum one of its buckets: so long after the beginning of a phase.
struct BucketNumbers {
  int position = -1;  ///< -1: only once all micro-batches are done
  int micro_batch = 0;
  Phase phase = Phase::kBackward;
  double after_seconds = 0;
  double check_seconds = 0;
};

/// What a plan's step consists of, in numbers: all that its simulation needs beside the schedule.
struct StepNumbers {
  std::vector<std::vector<StageNumbers>> stages = {};  ///< by pipeline and position
  std::vector<double> check_seconds = {};  ///< by rank of the plan: kCheckGradients' ops
  /// By rank of the plan, in the order of its buckets; empty: all begin when micro-batches are
  /// done.
  std::vector<std::vector<BucketNumbers>> buckets = {};
  std::vector<double> norm_seconds = {};    ///< by rank of the plan: kNormGradients' ops
  std::vector<double> update_seconds = {};  ///< by rank of the plan: kUpdate's ops
  /// By rank of the plan: what kSyncParameters runs after the sums; empty: nothing.
  std::vector<double> copy_seconds = {};
  /// Whether messages leave from a micro-batch's lane, which is taken until they have left; other
  /// trainers give each message memory of its own.
  bool sends_from_lanes = true;
};

/// Whether tasks get labels: a timeline needs one for each action, a sum of times one for each kind
/// of action, a search none.
enum class Labels : std::uint8_t { kNone, kKinds, kAll };

/// Which part of a step is written.
enum class StepPart : std::uint8_t {
  kWhole,
  kPipelines,       ///< micro-batches only
  kAfterPipelines,  ///< from the gradients' synchronisation on
  kAfterNorm,       ///< from the optimizer on: no rank begins it before all have done the rest
};

/// The cluster's rank that runs each rank of the plan. A plan's ranks are the cluster's where the
/// kinds agree; a plan that leaves devices out has its nth rank of a kind on the cluster's nth
/// device of that kind. Throws kInvalidPlan if the cluster has too few.
std::vector<int> cluster_ranks_of(const Plan& plan, const std::vector<RankPlace>& cluster);

/// Plans of no more ranks are simulated rank by rank and step by step.
inline constexpr int kMostStepwise = 64;

/// Writes a step of `plan`: each rank's actions in the order of its schedule.
///
/// Of more than `most_stepwise` ranks, one pipeline stands for all that are alike (first_alike),
/// and a collective is a meeting: it begins once its last rank has come and takes what it takes
/// alone (GroupSums). That is never shorter than step by step, except that collectives of more than
/// 32 members are scaled up; it differs by what ranks could do before the last one comes.
/// `segments` are segments_of the plan; `devices` are cluster_ranks_of it.
void write_step(StepBuilder& builder, const Plan& plan, const std::vector<Segment>& segments,
                const StepNumbers& numbers, const std::vector<int>& devices, Labels labels,
                StepPart part = StepPart::kWhole, int most_stepwise = kMostStepwise);

}  // namespace hethub
