#pragma once

#include <string>
#include <vector>

#include "hethub/search/pipeline_tables.h"
#include "hethub/search/search_cache.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// What pipelines can be made of where devices are told apart by their kind only, and what it
/// costs: compute and groups as in the simulation, messages over links inside a kind, memory from
/// StageMemory.
class StageMenu {
 public:
  /// Keeps references to both. A width above 1 whose ops have no cost on a kind is left out there.
  /// Throws kInvalidPlan if no micro-batch size divides the batch, or no kind can have the width
  /// asked for, and kInvalidConfig if no width of a kind has costs.
  StageMenu(const SearchRequest& request, SearchCache& cache);

  const std::vector<std::string>& kinds() const { return kinds_; }

  /// The cluster's ranks of each kind.
  const std::vector<std::vector<int>>& ranks() const { return ranks_; }

  /// The costs of every stage, where a kind's devices have so many bytes for an arena. `relaxed`:
  /// no more than any plan's stage costs, for a bound.
  PipelineTables tables(const std::vector<double>& usable_bytes, bool relaxed);

  /// Seconds that one micro-batch of a size of tables(..., false) keeps a stage computing.
  double compute_seconds(int size, const PickedStage& stage, TensorLayout layout);

  /// How the ranks of a plan of these pipelines store tensors.
  TensorLayout layout_of(const std::vector<ChosenPipeline>& pipelines) const;

  /// The plan that has these pipelines. A tensor-parallel group is inside one node.
  Plan plan_of(const std::vector<ChosenPipeline>& pipelines) const;

  /// One pipeline that needs the least memory: of all devices, or a layer for each of some.
  ChosenPipeline longest() const;

  /// Seconds that no plan is faster than.
  ///
  /// With a price for each kind's time, all devices' time in a step is worth at least what every
  /// layer of every sequence costs where it is cheapest. Prices make kinds equally good for a
  /// layer, and the devices' time in a second worth 1.
  double work_bound();

 private:
  struct Cell;

  void list_kinds();
  void list_choices();
  bool is_priced(const std::string& kind, int width);
  void list_sizes();
  double message_seconds(int kind, int size);
  double exchange_seconds(int kind, int other, double bytes) const;
  const std::string& schedule() const;
  int deepest(double lanes, int size) const;
  StageCost cost_of(const Cell& cell);
  double least_seconds(int kind, int layer);
  std::vector<int> all_sizes() const;

  const SearchRequest& request_;
  SearchCache& cache_;
  std::vector<std::string> kinds_ = {};
  std::vector<std::vector<int>> ranks_ = {};  // of the cluster, by kind
  std::vector<StageChoice> choices_ = {};
  std::vector<Recompute> recompute_ = {};      // by choice
  std::vector<std::vector<int>> widths_ = {};  // by kind
  std::vector<int> sizes_ = {};
};

}  // namespace hethub
