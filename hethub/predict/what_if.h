#pragma once

#include <string>
#include <vector>

#include "hethub/predict/predict.h"

namespace hethub {

/// A part of a cluster that is so many times faster.
struct Improvement {
  /// "links": every link's rate and latency; "copies": those between devices and hosts; "launches":
  /// what ops and actions take beside their work, where it was measured; "memory": the memory of
  /// all kinds, for the ops that are not products or attention where they were measured, for those
  /// that it bounds by data sheet; else the name of a kind: all its ops.
  std::string what = {};
  double factor = 1;
};

/// Reads "links=2x" or "a100=1.5". Throws kUsage for another form or a factor outside 0.001 to
/// 1000.
Improvement parse_improvement(const std::string& text);

/// The same costs with the improvement, measured and by data sheet alike. Throws kUsage, naming
/// what there is, if nothing is called so.
CostModel improved(const CostModel& costs, const Improvement& improvement);

/// What an improvement does to a plan that stays as it is.
struct Gain {
  Improvement improvement = {};
  double step_seconds = 0;
  double speedup = 1;  ///< the plan's step over this one
};

/// The plan's step with the improvement. `step_seconds` is that without.
Gain gain_of(const Plan& plan, const ModelConfig& model, const CostModel& costs,
             double step_seconds, const Improvement& improvement);

/// Every part of the plan's cluster improved `factor` times, one at a time; what helps most first.
std::vector<Gain> gains_of(const Plan& plan, const ModelConfig& model, const CostModel& costs,
                           double step_seconds, double factor = 2);

}  // namespace hethub
