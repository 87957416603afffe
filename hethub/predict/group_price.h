#pragma once

#include <utility>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/op/op.h"

namespace hethub {

/// Simulates the group ops of one group of ranks, each kind of them once, as if all members began
/// together: they do the same.
class GroupPricer {
 public:
  /// `devices` are ranks of the cluster. Keeps a reference to the costs.
  GroupPricer(const CostModel& costs, std::vector<int> devices)
      : costs_(costs), devices_(std::move(devices)) {}

  /// Seconds from the op's start to its end, on values of that type.
  double seconds(const GroupStart& op, DType dtype);

 private:
  const CostModel& costs_;
  std::vector<int> devices_;
  std::vector<std::pair<std::pair<GroupStart, DType>, double>> known_ = {};
};

}  // namespace hethub
