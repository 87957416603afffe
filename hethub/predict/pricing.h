#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/model/decoder.h"
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

/// Seconds of a group op from its start to its end.
using GroupPrice = std::function<double(const GroupStart& op, DType dtype)>;

/// The sum of the instructions' costs. `group` is needed where there are group ops; their waits
/// cost nothing more.
ProgramCost price(const CostModel& costs, std::string_view kind,
                  const std::vector<Instruction>& instructions, const GroupPrice& group = {});

/// One phase of a model's program, sorted by the layer that its instructions belong to.
template <typename T>
struct LayerParts {
  T before = {};               ///< what comes before layer 0: the embedding
  std::vector<T> layers = {};  ///< by layer
  T after = {};                ///< what comes after the last layer: head and loss
};

/// Hands each instruction of a phase to `add(part, instruction)`, with the part it belongs to. In a
/// backward phase the head comes first. The model has `layers` layers.
template <typename T, typename Add>
LayerParts<T> sorted_by_layer(const Program& model, Phase phase, int layers, const Add& add) {
  LayerParts<T> all{.layers = std::vector<T>(layers)};
  const bool forwards = phase == Phase::kForward;
  bool met_layers = false;
  for (const Instruction& instruction : model.phase(phase)) {
    met_layers = met_layers || instruction.layer >= 0;
    T& part = instruction.layer >= 0   ? all.layers.at(instruction.layer)
              : met_layers == forwards ? all.after
                                       : all.before;
    add(part, instruction);
  }
  return all;
}

/// What a model's parts cost in one phase. The sum over a slice is the cost of a stage's phase.
using LayerCosts = LayerParts<ProgramCost>;

/// Prices one phase of a whole model's program, layer by layer; `group` as in price().
LayerCosts price_by_layer(const CostModel& costs, std::string_view kind, const Program& model,
                          Phase phase, int layers, const GroupPrice& group = {});

/// Seconds of one phase of any slice of a model.
class PhaseSeconds {
 public:
  PhaseSeconds() = default;
  explicit PhaseSeconds(const LayerParts<double>& parts);

  double layers(int begin, int end) const { return sums_[end] - sums_[begin]; }
  double of(const Slice& slice) const {
    return (slice.embedding ? before_ : 0) + layers(slice.begin, slice.end) +
           (slice.head ? after_ : 0);
  }

 private:
  double before_ = 0;
  double after_ = 0;
  std::vector<double> sums_ = {0};  // of the first n layers
};

/// What one rank hands on at the end of a slice, for one micro-batch.
TensorSpec sent_spec(const ModelConfig& model, const BatchShape& shape,
                     const TensorParallel& parallel = {});

}  // namespace hethub
