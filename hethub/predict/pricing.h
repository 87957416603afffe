#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/program/program.h"

namespace hethub {

/// What a list of instructions takes on a kind, and where that knowledge comes from.
struct ProgramCost {
  double seconds = 0;
  std::array<double, 3> seconds_by_source = {};  ///< indexed by CostSource
  double farthest = 1;  ///< the largest OpCost::distance of a scaled op, 1 if there is none

  void add(const OpCost& cost);
  void add(const ProgramCost& cost, int times = 1);
};

/// The sum of the instructions' costs.
ProgramCost price(const CostModel& costs, std::string_view kind,
                  const std::vector<Instruction>& instructions);

/// What a model's transformer layers, and the rest of it, cost in one phase: instructions sorted by
/// the layer they belong to. The sum over any range of layers is the cost of a stage's phase.
struct LayerCosts {
  ProgramCost before = {};               ///< what comes before layer 0: the embedding
  std::vector<ProgramCost> layers = {};  ///< by layer
  ProgramCost after = {};                ///< what comes after the last layer: head and loss
};

/// Sorts one phase of a whole model's program by layer. In a backward phase the head comes first.
LayerCosts price_by_layer(const CostModel& costs, std::string_view kind, const Program& model,
                          Phase phase, int layers);

}  // namespace hethub
