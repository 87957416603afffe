#pragma once

#include "hethub/plan/plan.h"

namespace hethub {

/// Whether two pipelines are the same but for the numbers of their ranks.
inline bool alike_but_for_ranks(const Pipeline& a, Pipeline b) {
  if (a.stages.size() != b.stages.size()) return false;
  for (std::size_t stage = 0; stage < a.stages.size(); ++stage) {
    if (a.stages[stage].ranks.size() != b.stages[stage].ranks.size()) return false;
    b.stages[stage].ranks = a.stages[stage].ranks;
  }
  return a == b;
}

}  // namespace hethub
