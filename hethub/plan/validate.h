#pragma once

#include <string>
#include <vector>

#include "hethub/base/error.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// Everything wrong with `plan` for `model`, in reading order; empty means that it can run.
/// `kind_of_rank` is what the cluster has at each rank, empty if it is not known. Checks structure
/// only: whether the plan fits in memory is the predictor's question.
std::vector<Error> validate(const Plan& plan, const ModelConfig& model,
                            const std::vector<std::string>& kind_of_rank = {});

/// Throws kInvalidPlan with every fault of validate(), each on a line of its own.
void require_valid(const Plan& plan, const ModelConfig& model,
                   const std::vector<std::string>& kind_of_rank = {});

/// Throws kInvalidPlan unless so many ranks were started as `plan` has.
void require_ranks(const Plan& plan, int started);

}  // namespace hethub
