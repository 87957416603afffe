#pragma once

#include <filesystem>
#include <memory>
#include <string>

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

/// Opens the device of a rank's kind: the backend that the cluster file names for it, or the one of
/// that name.
std::unique_ptr<Backend> open_kind(const std::string& kind, const std::string& cluster_file,
                                   const BackendOptions& options);

/// The sum over the plan's ranks of their kinds' measured matrix-product rates; 0 if one is
/// missing.
double measured_peak(const Plan& plan, const Costs& costs);

}  // namespace hethub
