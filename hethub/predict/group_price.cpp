#include "hethub/predict/group_price.h"

#include "hethub/plan/group_ops.h"
#include "hethub/predict/step_builder.h"

namespace hethub {

std::vector<std::vector<int>> devices_of_groups(const Plan& plan, const RankPosition& at,
                                                const RankPlan& alike,
                                                const std::vector<int>& devices) {
  std::vector<std::vector<int>> groups = groups_of(plan, at);
  groups.insert(groups.end(), alike.groups.begin() + std::ssize(groups), alike.groups.end());
  for (std::vector<int>& group : groups) {
    for (int& member : group) {
      member = devices.at(member);
    }
  }
  return groups;
}

double GroupPricer::seconds(const GroupStart& op, DType dtype) {
  for (const auto& [known, seconds] : known_) {
    if (known == std::pair(op, dtype)) return seconds;
  }
  const StepBuilder builder(costs_);
  known_.emplace_back(std::pair(op, dtype),
                      builder.alone_seconds(devices_.at(op.group), group_algorithm(op, dtype),
                                            group_chunks(op), dtype));
  return known_.back().second;
}

}  // namespace hethub
