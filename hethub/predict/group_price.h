#pragma once

#include <utility>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/op/op.h"
#include "hethub/plan/rank_plan.h"

namespace hethub {

/// The devices of the groups of the rank at a position, where `devices` has those of all ranks.
/// `alike` is its rank plan or that of a rank like it, which stands for it in the groups that sum
/// scattered gradients.
std::vector<std::vector<int>> devices_of_groups(const Plan& plan, const RankPosition& at,
                                                const RankPlan& alike,
                                                const std::vector<int>& devices);

/// Simulates the group ops of one rank's groups, each kind of them once, as if all members began
/// together: they do the same.
class GroupPricer {
 public:
  /// `devices` are ranks of the cluster, by what GroupStart::group counts. Keeps a reference to the
  /// costs.
  GroupPricer(const CostModel& costs, std::vector<std::vector<int>> devices)
      : costs_(costs), devices_(std::move(devices)) {}

  /// Seconds from the op's start to its end, on values of that type.
  double seconds(const GroupStart& op, DType dtype);

 private:
  const CostModel& costs_;
  std::vector<std::vector<int>> devices_;
  std::vector<std::pair<std::pair<GroupStart, DType>, double>> known_ = {};
};

}  // namespace hethub
