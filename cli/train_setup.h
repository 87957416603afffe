#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hethub/accel/registry.h"
#include "hethub/cost/costs.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// The plan of a file, and the model that it (see model_path_of) or the command line names.
struct PlanAndModel {
  Plan plan = {};
  ModelConfig model = {};
};
PlanAndModel read_plan_and_model(const std::filesystem::path& plan, const std::string& model);

/// Throws kInvalidConfig, naming this build's backends, unless one of them opens each of the kinds.
/// Opens nothing.
void require_backends(const std::vector<std::string>& kinds, const std::string& cluster_file);

/// Whether one of the kinds is opened as an emulated device.
bool any_emulated(const std::vector<std::string>& kinds, const std::string& cluster_file);

/// Opens the device of a rank's kind: the backend that the cluster file names for it, or the one of
/// that name. Throws what require_backends throws.
std::unique_ptr<Backend> open_kind(const std::string& kind, const std::string& cluster_file,
                                   const BackendOptions& options);

/// The sum over the plan's ranks of their kinds' measured matrix-product rates; 0 if one is
/// missing.
double measured_gemm_rate(const Plan& plan, const Costs& costs);

}  // namespace hethub
