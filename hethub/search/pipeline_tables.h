#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hethub {

/// A way to make a stage: so many devices of one kind, which work on it together.
struct StageChoice {
  int kind = 0;     ///< position in PipelineTables::kinds
  int devices = 1;  ///< tensor-parallel width
};

/// What a stage costs, by the layers it holds.
struct StageCost {
  double seconds = 0;   ///< a micro-batch keeps the stage busy for so long, messages included
  double update = 0;    ///< seconds of the optimizer
  double exchange = 0;  ///< seconds to sum its gradients over very many replicas, halved
  int deepest = 0;      ///< it fits its device as the deepest-th stage from the end; 0: never
};

/// What the search over sets of pipelines needs to know of a cost model: a table of StageCost.
///
/// Pipelines are independent replicas. One of m micro-batches takes (m - 1) · slowest stage + the
/// sum of its stages; a step takes the slowest pipeline, then the longest update of a stage, then
/// the longest exchange, 2 · (r - 1) / r · exchange with r pipelines. All four costs of a stage
/// grow with its layers, at either end; `deepest` falls.
struct PipelineTables {
  std::vector<std::string> kinds = {};
  std::vector<int> available = {};          ///< devices, by kind
  std::vector<double> mixed_exchange = {};  ///< by kind: `exchange` is so many times as long among
                                            ///< replicas of different shapes; empty: no longer
  std::vector<double> wire = {};  ///< by size, kind and next kind: seconds of a message between
                                  ///< stages of two kinds; empty: none
  std::vector<StageChoice> choices = {};
  std::vector<int> sizes = {};  ///< micro-batch sizes
  int layers = 0;
  std::int64_t global_batch = 0;  ///< the pipelines take at least so many sequences together
  bool fills = true;  ///< false, for bounds: m micro-batches take m · slowest stage only
  std::vector<StageCost> costs = {};  ///< by size, choice, first layer, end

  /// Where the cost of layers [begin, end) stands, for positions in `sizes` and `choices`.
  std::size_t index_of(int size, int choice, int begin, int end) const {
    return ((static_cast<std::size_t>(size) * choices.size() + choice) * layers + begin) *
               (layers + 1) +
           end;
  }
  /// Seconds that a message takes from a stage on a kind to one on another.
  double wire_seconds(int size, int kind, int next) const {
    if (wire.empty() || kind == next) return 0;
    const std::size_t count = kinds.size();
    return wire[(static_cast<std::size_t>(size) * count + kind) * count + next];
  }
  const StageCost& cost(int size, int choice, int begin, int end) const {
    return costs[index_of(size, choice, begin, end)];
  }
};

/// A stage as it was chosen.
struct PickedStage {
  int choice = 0;
  int begin = 0;
  int end = 0;

  friend bool operator==(const PickedStage&, const PickedStage&) = default;
};

/// A pipeline of which any number of replicas may exist.
struct PipelineColumn {
  int size = 0;                          ///< position in PipelineTables::sizes
  std::vector<PickedStage> stages = {};  ///< first to last
  std::vector<int> devices = {};         ///< by kind
  double slowest = 0;                    ///< seconds of its slowest stage
  double total = 0;                      ///< of all its stages
  double update = 0;                     ///< the longest
  double exchange = 0;                   ///< the longest
  double mixed_exchange = 0;             ///< the longest among replicas of different shapes
};

/// Of what so many replicas sum and hand out again, the share that each of them sends in both
/// together: that of the algorithms that training_choices names.
constexpr double exchanges(std::int64_t replicas) {
  return 2 * static_cast<double>(replicas - 1) / static_cast<double>(replicas);
}

/// Fills in what follows from size and stages.
PipelineColumn column_of(const PipelineTables& tables, int size, std::vector<PickedStage> stages);

/// The most micro-batches that the pipeline ends within `seconds`, no more than the batch has.
std::int64_t micro_batches_within(const PipelineTables& tables, const PipelineColumn& column,
                                  double seconds);

/// A pipeline of a plan.
struct ChosenPipeline {
  PipelineColumn column = {};
  std::int64_t micro_batches = 0;
};

/// Seconds of a step of these pipelines.
double step_seconds_of(const std::vector<ChosenPipeline>& pipelines);

/// The same pipelines with as few micro-batches each as lets the last of them end soonest.
std::vector<ChosenPipeline> balanced(const PipelineTables& tables,
                                     const std::vector<PipelineColumn>& columns);

}  // namespace hethub
