#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/collective/choice.h"

namespace hethub {

/// How long one algorithm took for one call.
struct AlgorithmTime {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::string algorithm = {};  ///< as the table spells it
  int ranks = 1;
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// The table that these times call for. At each size the fastest algorithm is taken, but the one of
/// the size below stays where it is within 3 %, so that noise cuts no size out; a rule reaches half
/// way, by ratio, to the next size, and the last any size. The rules hold for the measured numbers
/// of ranks alone and stand before those of `base`, but for the rules of `base` that need parts.
ChoiceTable tuned_choices(const std::vector<AlgorithmTime>& times, const ChoiceTable& base);

/// What a collective's bytes a second are multiplied by to speak of the links: the share of the
/// bytes that the busiest rank must send or take whatever the algorithm. Source: nccl-tests,
/// doc/PERFORMANCE.md.
double bus_factor(CollectiveOp op, int ranks);

}  // namespace hethub
