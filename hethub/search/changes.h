#pragma once

#include <string>
#include <vector>

#include "hethub/search/strategy.h"

namespace hethub {

/// The same cluster but for one thing.
struct ClusterChange {
  std::string what = {};  ///< e.g. "one more node like gpu (8 a100)"
  Cluster cluster = {};
  Costs costs = {};
};

/// What a user may change: one more node like each there is, links of twice the rate and half the
/// latency, twice the memory of each kind. In this order.
std::vector<ClusterChange> changes_of(const CostModel& costs);

/// What a search finds with one thing changed.
struct ChangeEffect {
  std::string what = {};
  double tokens_per_second = 0;  ///< of the best plan; 0 if none fits
  bool proven = true;            ///< false: the search proved no limit, so it may be more
  std::string not_known = {};    ///< why there is no figure, e.g. a link that is not stated
};

/// Plans the job anew for every change; all searches together keep the request's time limit. The
/// request's pins hold. `winner`, the plan without a change, is looked at as well.
std::vector<ChangeEffect> effects_of_changes(const SearchRequest& request, const Strategy& strategy,
                                             const Plan& winner);

/// The first change that makes a plan fit: sequences of half the length, then twice the memory of
/// each kind, one more node of each sort. All searches together keep the request's time limit.
/// "" if none of them does.
std::string change_that_fits(const SearchRequest& request, const Strategy& strategy);

}  // namespace hethub
