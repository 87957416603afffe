#include "hethub/predict/pricing.h"

#include <algorithm>
#include <utility>

namespace hethub {
namespace {

// Prices each of a program's ops once: layers are alike.
class OpPrices {
 public:
  OpPrices(const CostModel& costs, std::string_view kind) : costs_(costs), kind_(kind) {}

  void add(const Op& op, const GroupPrice& group, ProgramCost& total) {
    if (const auto* start = group ? std::get_if<GroupStart>(&op.body) : nullptr) {
      total.seconds += group(*start, op.dtype);
    } else if (!group || !std::holds_alternative<GroupWait>(op.body)) {
      total.add(of(op));
    }
  }

 private:
  const OpCost& of(const Op& op) {
    const auto found = std::find_if(known_.begin(), known_.end(),
                                    [&](const auto& one) { return same_work(*one.first, op); });
    if (found != known_.end()) return found->second;
    return known_.emplace_back(&op, costs_.op_cost(kind_, op)).second;
  }

  const CostModel& costs_;
  std::string_view kind_;
  std::vector<std::pair<const Op*, OpCost>> known_ = {};
};

}  // namespace

void ProgramCost::add(const OpCost& cost) {
  seconds += cost.seconds;
  seconds_by_source.at(static_cast<std::size_t>(cost.source)) += cost.seconds;
  if (cost.source == CostSource::kScaled) farthest = std::max(farthest, cost.distance);
}

void ProgramCost::add(const ProgramCost& cost, int times) {
  seconds += times * cost.seconds;
  for (std::size_t source = 0; source < seconds_by_source.size(); ++source) {
    seconds_by_source[source] += times * cost.seconds_by_source[source];
  }
  farthest = std::max(farthest, cost.farthest);
}

ProgramCost price(const CostModel& costs, std::string_view kind,
                  const std::vector<Instruction>& instructions, const GroupPrice& group) {
  ProgramCost total;
  OpPrices prices(costs, kind);
  for (const Instruction& instruction : instructions) {
    prices.add(instruction.op, group, total);
  }
  return total;
}

LayerCosts price_by_layer(const CostModel& costs, std::string_view kind, const Program& model,
                          Phase phase, int layers, const GroupPrice& group) {
  OpPrices prices(costs, kind);
  return sorted_by_layer<ProgramCost>(model, phase, layers,
                                      [&](ProgramCost& part, const Instruction& instruction) {
                                        prices.add(instruction.op, group, part);
                                      });
}

PhaseSeconds::PhaseSeconds(const LayerParts<double>& parts)
    : before_(parts.before), after_(parts.after) {
  for (const double layer : parts.layers) {
    sums_.push_back(sums_.back() + layer);
  }
}

TensorSpec sent_spec(const ModelConfig& model, const BatchShape& shape,
                     const TensorParallel& parallel) {
  const Program first = build_forward(model, {0, 1, true, false}, shape, parallel);
  return first.values.at(first.sent_activation).spec;
}

}  // namespace hethub
