#pragma once

#include <string>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/plan_step.h"

namespace hethub {

/// What a pipeline takes under a schedule, with nothing but its micro-batches in it.
struct ScheduleAnswer {
  std::string name = {};
  bool runs = true;         ///< false: predict only, training does not run it
  double seconds = 0;       ///< of a step's micro-batches; without a flush: of a step in a long run
  double bubble = 0;        ///< share of the stages' time that is not compute
  int most_alive = 0;       ///< micro-batches whose activations the fullest stage keeps
  int weight_versions = 1;  ///< of the stage with most
  int weight_copies = 1;    ///< slices of the model on each stage: 2 where there are two directions
  std::string misfit = {};  ///< why the pipeline's shape does not fit; then the rest is not known
};

/// Seconds of a schedule in which the pass over each position takes the same on all that hold it.
/// `positions`: by position of a direction; `devices`: by worker, where its messages come from.
double schedule_seconds(const Schedule& schedule, const std::vector<StageNumbers>& positions,
                        const std::vector<int>& devices, const CostModel& costs);

/// The first pipeline of a plan under every schedule that has one range of layers a stage: those
/// that training runs and those that are predict only. Each stage's first rank stands for its
/// ranks, and sends its share. Throws kInvalidPlan for stages of several kinds or of several
/// ranges.
std::vector<ScheduleAnswer> compare_schedules(const Plan& plan, const ModelConfig& model,
                                              const CostModel& costs);

}  // namespace hethub
