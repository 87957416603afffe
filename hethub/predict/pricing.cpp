#include "hethub/predict/pricing.h"

#include <algorithm>

namespace hethub {

void ProgramCost::add(const OpCost& cost) {
  seconds += cost.seconds;
  seconds_by_source.at(static_cast<std::size_t>(cost.source)) += cost.seconds;
  if (cost.source == CostSource::kScaled) farthest = std::max(farthest, cost.distance);
}

void ProgramCost::add(const ProgramCost& cost) {
  seconds += cost.seconds;
  for (std::size_t source = 0; source < seconds_by_source.size(); ++source) {
    seconds_by_source[source] += cost.seconds_by_source[source];
  }
  farthest = std::max(farthest, cost.farthest);
}

ProgramCost price(const CostModel& costs, std::string_view kind,
                  const std::vector<Instruction>& instructions) {
  ProgramCost total;
  for (const Instruction& instruction : instructions) {
    total.add(costs.op_cost(kind, instruction.op));
  }
  return total;
}

LayerCosts price_by_layer(const CostModel& costs, std::string_view kind, const Program& model,
                          Phase phase, int layers) {
  LayerCosts all;
  all.layers.resize(layers);
  const bool forwards = phase == Phase::kForward;
  bool met_layers = false;
  for (const Instruction& instruction : model.phase(phase)) {
    const OpCost cost = costs.op_cost(kind, instruction.op);
    if (instruction.layer >= 0) {
      all.layers.at(instruction.layer).add(cost);
      met_layers = true;
    } else if (met_layers == forwards) {
      all.after.add(cost);
    } else {
      all.before.add(cost);
    }
  }
  return all;
}

}  // namespace hethub
