#include "cli/train_setup.h"

#include "hethub/base/error.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/plan/plan_file.h"

namespace hethub {

PlanAndModel read_plan_and_model(const std::filesystem::path& plan, const std::string& model) {
  PlanAndModel read{.plan = read_plan(plan)};
  if (model.empty() && read.plan.model.empty()) {
    throw Error(ErrorCode::kUsage, {.what = "--model",
                                    .found = "none, here or in the plan",
                                    .expected = "a config.json",
                                    .fix = "add --model CONFIG"});
  }
  read.model =
      read_model(model.empty() ? model_path_of(plan, read.plan) : std::filesystem::path(model));
  return read;
}

std::unique_ptr<Backend> open_kind(const std::string& kind, const std::string& cluster_file,
                                   const BackendOptions& options) {
  if (cluster_file.empty()) return open_backend(kind, options);
  return open_backend(kind_named(read_cluster(cluster_file), kind).backend, options);
}

double measured_peak(const Plan& plan, const Costs& costs) {
  double sum = 0;
  for (const std::string& kind : plan.kind_of_rank()) {
    const auto found = costs.kinds.find(kind);
    if (found == costs.kinds.end()) return 0;
    const auto rate = found->second.gemm_flops_per_s.find(plan.dtype);
    if (rate == found->second.gemm_flops_per_s.end()) return 0;
    sum += rate->second;
  }
  return sum;
}

}  // namespace hethub
