#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hethub/plan/plan.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/model_ops.h"
#include "hethub/predict/plan_step.h"
#include "hethub/predict/published_run.h"
#include "hethub/predict/run_stage.h"

namespace hethub {

/// A published run's pipeline as a plan, with one rank of that kind for each stage.
Plan plan_of(const PublishedRun& run, const std::vector<std::string>& kinds);

/// A published run's pipeline as a plan: one rank for each stage, which all the stage's ranks are
/// like. Its step is write_step's. Keeps references to all it is given.
class RunPipeline {
 public:
  RunPipeline(const PublishedRun& run, const ModelOps& ops, const std::vector<RunStage>& stages);

  /// Seconds of a step in which each stage has so much to do after its micro-batches.
  double seconds(const std::vector<double>& after) const;

  /// What a stage does while its replicas hand each other data, in seconds.
  struct Window {
    double parameters = 0;  ///< until the first forward pass of its last position is done
    double gradients = 0;   ///< from the last backward pass of its first position to be done
    double both() const { return parameters + gradients; }
  };

  /// By stage.
  std::vector<Window> windows() const;

  /// Elements of parameters that each rank of a stage holds.
  std::int64_t held(int stage) const;

  /// Layers of a stage.
  int layers(int stage) const;

 private:
  SimStep step(const std::vector<double>& after) const;
  std::pair<int, int> turns(int stage) const;
  Cluster cluster() const;

  const PublishedRun& run_;
  const ModelOps& ops_;
  const std::vector<RunStage>& stages_;
  Plan plan_ = {};
  Schedule schedule_ = {};
  std::vector<StageNumbers> numbers_ = {};  // by position
};

}  // namespace hethub
