#pragma once

#include <string>

#include "hethub/op/op.h"

namespace hethub {

// What facts_of and sizes_text say of the ops of experts.
OpFacts facts(const Router& op, DType type);
OpFacts facts(const RouterGrad& op, DType type);
OpFacts facts(const SortChoices& op, DType type);
OpFacts facts(const TakeRows& op, DType type);
OpFacts facts(const SumRows& op, DType type);
OpFacts facts(const SumRowsGradWeight& op, DType type);
OpFacts facts(const ExpertLinear& op, DType type);
OpFacts facts(const ExpertLinearGradInput& op, DType type);
OpFacts facts(const ExpertLinearGradWeight& op, DType type);
std::string sizes(const Router& op);
std::string sizes(const RouterGrad& op);
std::string sizes(const SortChoices& op);
std::string sizes(const TakeRows& op);
std::string sizes(const SumRows& op);
std::string sizes(const SumRowsGradWeight& op);
std::string sizes(const ExpertLinear& op);
std::string sizes(const ExpertLinearGradInput& op);
std::string sizes(const ExpertLinearGradWeight& op);

}  // namespace hethub
