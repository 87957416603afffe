#include "cli/train_setup.h"

#include <algorithm>
#include <set>

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

namespace {

// The backend that the cluster file names for a kind, or the one of that name.
std::string backend_of(const std::string& kind, const std::string& cluster_file) {
  return cluster_file.empty() ? kind : kind_named(read_cluster(cluster_file), kind).backend;
}

void require_built(const std::string& kind, const std::string& backend,
                   const std::string& cluster_file) {
  if (is_backend(backend)) return;
  std::string known;
  for (const std::vector<std::string>& names : {backend_names(), plugin_names()}) {
    for (const std::string& name : names) {
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  throw Error(ErrorCode::kInvalidConfig,
              {.what = text("kind ", kind),
               .found = text("backend '", backend, "', which this build lacks"),
               .expected = text("one of its backends: ", known),
               .fix = cluster_file.empty()
                          ? "say in a --cluster file which of them opens this kind, or make a "
                            "plan for kinds that are here"
                          : text("change the kind's backend in ", cluster_file,
                                 ", or make a plan for kinds that are here")});
}

}  // namespace

void require_backends(const std::vector<std::string>& kinds, const std::string& cluster_file) {
  for (const std::string& kind : std::set<std::string>(kinds.begin(), kinds.end())) {
    require_built(kind, backend_of(kind, cluster_file), cluster_file);
  }
}

bool any_emulated(const std::vector<std::string>& kinds, const std::string& cluster_file) {
  const std::set<std::string> distinct(kinds.begin(), kinds.end());
  return std::any_of(distinct.begin(), distinct.end(), [&](const std::string& kind) {
    return backend_of(kind, cluster_file).starts_with("emulated");
  });
}

std::unique_ptr<Backend> open_kind(const std::string& kind, const std::string& cluster_file,
                                   const BackendOptions& options) {
  const std::string backend = backend_of(kind, cluster_file);
  require_built(kind, backend, cluster_file);
  return open_backend(backend, options);
}

double measured_gemm_rate(const Plan& plan, const Costs& costs) {
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
