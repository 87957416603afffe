#pragma once

#include <vector>

#include "hethub/plan/alike_ranks.h"
#include "hethub/plan/plan.h"
#include "hethub/predict/predict.h"

namespace hethub {

/// FLOPs of a whole step, of all ranks' programs.
struct StepFlops {
  double needed = 0;
  double again = 0;  ///< recomputed
};

/// The accounts of a prediction's stages, in the plan's order, those of alike pipelines once.
/// `ranks` are the plan's rank plans. Adds up the step's FLOPs in `flops` if it is given.
std::vector<StageAccount> stage_accounts(const Plan& plan, const RankPlans& ranks,
                                         const CostModel& costs, const Prediction& prediction,
                                         StepFlops* flops = nullptr);

}  // namespace hethub
