#pragma once

#include <string>
#include <vector>

#include "hethub/search/strategy.h"

namespace hethub {

/// What the devices of one kind reach without the others.
struct KindAlone {
  std::string kind = {};
  int devices = 0;
  std::int64_t sequences = 0;    ///< of the global batch
  double tokens_per_second = 0;  ///< of its best plan; 0 if none fits
  bool proven = true;            ///< false: its search proved no limit, so it may be more
};

/// The upper bound of a mixed cluster: the sum over its kinds of the tokens/s of that kind's
/// devices alone, each with its share of the global batch, in proportion to its throughput.
struct UpperBound {
  std::vector<KindAlone> kinds = {};
  double tokens_per_second = 0;

  /// Whether a plan of so many tokens/s may be measured by it: every kind's search ended by itself,
  /// and none of them missed a plan as good as this one shows there are.
  bool holds_for(double plan_tokens_per_second) const;
};

/// Plans each kind alone, all within the request's time limit. Pins but those of micro_batch_size,
/// recompute and schedule are let go.
UpperBound upper_bound_of(const SearchRequest& request, const Strategy& strategy);

/// The same job on all kinds but one. All searches together keep the request's time limit.
struct WithoutKind {
  std::string kind = {};
  double tokens_per_second = 0;  ///< of the best plan; 0 if none fits
  bool proven = true;            ///< false: the search proved no limit, so it may be more
  Plan plan = {};                ///< that plan, in the numbers of the whole cluster's devices
};
std::vector<WithoutKind> without_each_kind(const SearchRequest& request, const Strategy& strategy);

/// Puts a plan of fewer kinds first that is faster than all the search found: more devices give it
/// more to look at, and time or bounds may have left that plan out.
void take_faster(SearchResult& result, const std::vector<WithoutKind>& without,
                 const SearchRequest& request);

/// Devices that the best plan does without.
struct LeftOut {
  std::string kind = {};
  int devices = 0;               ///< that no stage has
  int available = 0;             ///< of the kind, as far as pins allow it
  double step_seconds_with = 0;  ///< of the fastest plan kept that has more of them; 0: none
};

/// By kind; of a result that has a plan.
std::vector<LeftOut> left_out_of(const SearchResult& result, const SearchRequest& request);

/// "1f1b; 16 x 2: a[0-8] b[8-12] | 3 of 8 x 1: 2*a/tp2[0-12]": pipelines with their micro-batches
/// and stages; 3 alike pipelines, and 2 alike stages that share out layers 0 to 12. "a[15 in 3
/// parts]" has as many virtual stages.
std::string summary_of(const Plan& plan);

/// What limits the plan: the rank that is busy longest, and with what.
std::string binding_of(const Candidate& candidate);

/// The least over the most compute time of any rank: 1 is perfect balance.
double balance_of(const Prediction& prediction);

/// By how much a runner-up is slower than the winner, and where its time goes.
std::string loss_of(const Candidate& runner_up, const Candidate& winner);

}  // namespace hethub
