#pragma once

#include "hethub/search/strategy.h"

namespace hethub {

/// "mcmc": a random walk over plans, from the plan that "exact" finds in part of the time.
///
/// Each step changes one thing: a layer goes over to a stage's neighbour (in one pipeline, or in
/// all that are alike), a micro-batch to another pipeline, two stages change places, a stage's
/// recompute or the schedule changes. A plan that is simulated slower is gone on with by the
/// probability exp(-k times its share of time lost), so that the walk leaves hollows. Only plans
/// that fit are gone on with. Request, seed and number of steps decide what is found, unless time
/// ends the walk. The bound is that of "exact". Source: Jia, Zaharia and Aiken, "Beyond Data and
/// Model Parallelism for Deep Neural Networks" (FlexFlow), MLSys 2019.
class McmcStrategy : public Strategy {
 public:
  SearchResult find(const SearchRequest& request) const override;
};

}  // namespace hethub
