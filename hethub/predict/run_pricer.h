#pragma once

#include <string>

#include "hethub/cluster/sheets.h"
#include "hethub/predict/model_ops.h"
#include "hethub/predict/published_run.h"
#include "hethub/predict/run_stage.h"

namespace hethub {

/// Where a run's step goes, in seconds of its slowest rank.
struct RunPrediction {
  double step_s = 0;
  double pipeline_s = 0;  ///< all micro-batches, waiting for other stages included
  double exposed_s = 0;   ///< gradients and parameters exchanged with nothing beside it
  double optimizer_s = 0;
};

/// Predicts published runs from data sheets: the programs are build_forward's and differentiate's,
/// the schedule plan/schedule's, the simulation write_step's. Keeps what it has built. "Predict
/// only": it prices parallelism that training does not have yet. One thread at a time.
class RunPricer {
 public:
  /// Keeps a reference.
  explicit RunPricer(const Sheets& sheets) : sheets_(sheets) {}

  /// Why a run cannot be priced; empty if it can.
  std::string obstacle(const PublishedRun& run) const;

  /// Throws kUnsupported if there is an obstacle.
  RunPrediction price(const PublishedRun& run);

  const Sheets& sheets() const { return sheets_; }

  /// What the run's framework does; defaults where the run names none.
  Software software_of(const PublishedRun& run) const;

 private:
  const Sheets& sheets_;
  ModelOpsCache ops_ = {};
  TrafficCache traffic_ = {};
};

}  // namespace hethub
