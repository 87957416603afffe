#pragma once

#include <string>
#include <vector>

#include "hethub/base/json.h"
#include "hethub/search/changes.h"
#include "hethub/search/objectives.h"
#include "hethub/search/reasons.h"

namespace hethub {

/// Everything the verb has to say about a search.
struct PlanAnswer {
  SearchResult result = {};
  UpperBound bound = {};
  /// Of the best plan with whole stages and backward passes, which other clusters are compared
  /// with: of theirs no other schedule is tried.
  double base_tokens_per_second = 0;
  std::vector<WithoutKind> without = {};
  std::vector<LeftOut> left_out = {};
  std::vector<ChangeEffect> changes = {};
  std::vector<Choice> choices = {};        ///< none beats another; empty unless asked for
  std::vector<std::string> emulated = {};  ///< kinds whose costs are those of emulated devices
};

/// The answer for machines.
Json json_of(const PlanAnswer& answer);

/// The same for people.
void print_answer(const PlanAnswer& answer);

/// Pipelines by stages with how busy each is, as text: alike pipelines once.
std::string diagram_of(const Plan& plan, const Prediction& prediction);

}  // namespace hethub
