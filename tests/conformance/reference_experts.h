#pragma once

#include <vector>

#include "reference.h"

namespace hethub::conformance {

/// Those of `reference` that are of mixtures of experts.
std::vector<Values> compute(const Router& op, const std::vector<Values>& in);
std::vector<Values> compute(const RouterGrad& op, const std::vector<Values>& in);
std::vector<Values> compute(const SortChoices& op, const std::vector<Values>& in);
std::vector<Values> compute(const TakeRows& op, const std::vector<Values>& in);
std::vector<Values> compute(const SumRows& op, const std::vector<Values>& in);
std::vector<Values> compute(const SumRowsGradWeight& op, const std::vector<Values>& in);
std::vector<Values> compute(const ExpertLinear& op, const std::vector<Values>& in);
std::vector<Values> compute(const ExpertLinearGradInput& op, const std::vector<Values>& in);
std::vector<Values> compute(const ExpertLinearGradWeight& op, const std::vector<Values>& in);

}  // namespace hethub::conformance
