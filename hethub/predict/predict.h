#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/model/config.h"
#include "hethub/plan/alike_ranks.h"
#include "hethub/plan/plan.h"
#include "hethub/predict/plan_step.h"
#include "hethub/predict/pricing.h"
#include "hethub/trace/timeline.h"

namespace hethub {

/// What one rank does in a predicted step, and the memory it takes.
struct RankPrediction {
  int rank = 0;
  std::string kind = {};
  double compute_seconds = 0;   ///< forward and backward
  double update_seconds = 0;    ///< gradient norm and optimizer
  double transfer_seconds = 0;  ///< copies for messages, and all of the gradient synchronisation
  double bubble_seconds = 0;    ///< the rest of the step: waiting for other stages
  /// What it does other than to wait for its pipeline, by ActionKind; compute, update
  /// and transfer are sums of these.
  std::array<double, kActionKinds> action_seconds = {};
  std::int64_t arena_bytes = 0;   ///< exactly what the rank will allocate
  std::int64_t fixed_bytes = 0;   ///< what its process or driver was measured to take beside that
  std::int64_t device_bytes = 0;  ///< what the kind has

  double of(ActionKind kind) const { return action_seconds[static_cast<std::size_t>(kind)]; }

  /// Bytes that are left; negative if the rank does not fit.
  std::int64_t free_bytes() const { return device_bytes - arena_bytes - fixed_bytes; }
};

/// Where the step of one stage's first rank goes, in seconds; they add up to the step.
struct StageAccount {
  int pipeline = 0;
  int stage = 0;
  int alike = 1;  ///< pipelines that are like this one, itself included: they have no account
  std::string kind = {};
  int devices = 0;
  std::vector<LayerRange> layers = {};
  double compute_seconds = 0;     ///< forward and backward, without the next two
  double recompute_seconds = 0;   ///< what the backward pass computes again
  double tensor_seconds = 0;      ///< group ops: of tensor-parallel groups and of shared experts
  double boundary_seconds = 0;    ///< copies to and from the host for the stages beside it
  double gradient_seconds = 0;    ///< sums of gradients with nothing beside them
  double parameter_seconds = 0;   ///< owners hand out what they updated
  double norm_seconds = 0;        ///< waiting for all ranks to tell their gradients' norm
  double optimizer_seconds = 0;   ///< checks, norms and updates
  double bubble_seconds = 0;      ///< waiting for messages of the pipeline
  double flops_per_s = 0;         ///< of each device: all that its programs compute
  std::int64_t memory_bytes = 0;  ///< of its fullest rank, fixed bytes included
};

/// What the simulation says of a plan. Times are of one step, in seconds.
struct Prediction {
  double step_seconds = 0;
  double tokens_per_second = 0;
  double bubble_fraction = 0;  ///< share of the ranks' time without compute or update
  double mfu = 0;              ///< model FLOP/s over the data sheets' peaks; 0 if one is not stated
  double model_flops_per_s =
      0;  ///< 6 a parameter and token, attention counted in full; all devices
  double hardware_flops_per_s = 0;  ///< the same with what is recomputed; 0 unless asked for
  double gemm_fraction = 0;         ///< the same over measured matrix products; 0 if one is missing
  ProgramCost cost = {};            ///< all ranks' compute by the source of its costs
  std::vector<RankPrediction> ranks = {};
  std::vector<StageAccount> stages = {};  ///< empty unless asked for
  Timeline timeline = {};                 ///< empty unless asked for

  /// Hardware FLOP/s over the data sheets' peaks (HFU); 0 where it or the MFU is not known.
  double hfu() const {
    return model_flops_per_s > 0 ? mfu * hardware_flops_per_s / model_flops_per_s : 0;
  }

  /// The rank with the least memory left.
  const RankPrediction& fullest() const;
};

struct PredictOptions {
  bool timeline = false;
  bool stages = false;  ///< where each stage's step goes, and hardware FLOP/s
};

/// Model FLOP/s of so many tokens/s over the data sheets' peaks of the plan's ranks, and over their
/// measured matrix products; 0 where a rank's is not known.
struct Efficiency {
  double mfu = 0;
  double gemm_fraction = 0;
};
Efficiency efficiency_of(const Plan& plan, const ModelConfig& model, const CostModel& costs,
                         double tokens_per_second);

/// The numbers of a plan's step, from the programs and ops that its ranks run. `ranks` are the
/// plan's rank plans; `cost`, if given, takes the sum of all their costs.
StepNumbers numbers_of(const Plan& plan, const RankPlans& ranks, const CostModel& costs,
                       ProgramCost* cost = nullptr);

/// What is known of a valid plan before its simulation.
struct PricedPlan {
  const Plan& plan;
  const std::vector<Segment>& segments;  ///< segments_of it
  StepNumbers numbers = {};
  std::vector<std::int64_t> arena_bytes = {};  ///< by rank
  ProgramCost cost = {};                       ///< for Prediction::cost
};

/// Simulates one step of a plan whose prices are known: for who prices many.
Prediction predict(const PricedPlan& priced, const ModelConfig& model, const CostModel& costs,
                   const PredictOptions& options = {});

/// Simulates one step of a plan on a cluster. Throws kInvalidPlan if the plan is not valid for the
/// model and the cluster, kInvalidConfig if a cost is missing.
Prediction predict(const Plan& plan, const ModelConfig& model, const CostModel& costs,
                   const PredictOptions& options = {});

}  // namespace hethub
