#include <map>
#include <string>

#include "hethub/base/error.h"
#include "hethub/predict/plan_step.h"

namespace hethub {

std::vector<int> cluster_ranks_of(const Plan& plan, const std::vector<RankPlace>& cluster) {
  const std::vector<std::string> kinds = plan.kind_of_rank();
  bool same = kinds.size() <= cluster.size();
  for (std::size_t rank = 0; same && rank < kinds.size(); ++rank) {
    same = kinds[rank] == cluster[rank].kind;
  }
  std::map<std::string, std::vector<int>> of_kind;
  for (std::size_t rank = 0; rank < cluster.size(); ++rank) {
    of_kind[cluster[rank].kind].push_back(static_cast<int>(rank));
  }
  std::map<std::string, std::size_t> next;
  std::vector<int> devices;
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    const std::vector<int>& have = of_kind[kinds[rank]];
    const std::size_t nth = next[kinds[rank]]++;
    if (nth >= have.size()) {
      throw Error(ErrorCode::kInvalidPlan,
                  {.what = text("plan: rank ", rank, ": kind ", kinds[rank]),
                   .found = text("the plan's device ", nth + 1, " of that kind"),
                   .expected = text("at most ", have.size(), ", as many as the cluster has"),
                   .fix = "plan for this cluster, or add the devices to its file"});
    }
    devices.push_back(same ? static_cast<int>(rank) : have[nth]);
  }
  return devices;
}

}  // namespace hethub
