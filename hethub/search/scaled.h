#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hethub/search/memory_check.h"
#include "hethub/search/pipeline_tables.h"
#include "hethub/search/stage_pricer.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// The strategy "exact" for more devices than can be looked at one by one. See make_strategy.
///
/// Devices are told apart by their kind only. search_replicas chooses the pipelines from a table:
/// compute as in the simulation, messages over links inside a kind, memory from the arenas of
/// models of one and two layers. Its plan is then simulated and its memory planned in full; if a
/// rank does not fit, its kind is taken to have less, and the search is run again. The bound holds
/// for every plan: its pipelines need not fill nor send messages, and memory is for parameters and
/// their gradients only.
class ScaledSearch {
 public:
  /// Keeps a reference to the request, which Strategy::find has checked.
  explicit ScaledSearch(const SearchRequest& request);

  SearchResult run();

 private:
  /// Memory of a stage: affine in its layers and in the micro-batches alive at once.
  struct StageBytes {
    double fixed = 0;  // at least; with the embedding and the head
    double layer = 0;  // parameters, gradients and optimizer state
    double alive = 0;  // of a layer, for each micro-batch alive
  };

  void list_choices();
  void list_sizes();
  const StageBytes& stage_bytes(int size, Recompute recompute);
  std::int64_t arena_bytes(const ModelConfig& model, int size, Recompute recompute) const;
  double message_seconds(int kind, int size);
  double exchange_rate() const;
  PipelineTables tables(bool relaxed);
  void fill(PipelineTables& tables, int size, int choice, bool relaxed);
  Plan plan_of(const std::vector<ChosenPipeline>& pipelines) const;
  bool fit(const Plan& plan);
  std::int64_t try_plan(int only_kind, std::int64_t most_replicas);
  void try_more_and_more(int only_kind, double seconds);
  void try_longest();
  void keep(const Plan& plan);
  double seconds_left() const;

  const SearchRequest& request_;
  StagePricer pricer_;
  MemoryCheck memory_;
  std::vector<std::string> kinds_ = {};
  std::vector<std::vector<int>> ranks_ = {};  // of the cluster, by kind
  std::vector<StageChoice> choices_ = {};
  std::vector<Recompute> recompute_ = {};  // by choice
  std::vector<int> sizes_ = {};
  std::vector<double> usable_bytes_ = {};                             // by kind
  std::map<std::pair<int, Recompute>, StageBytes> stage_bytes_ = {};  // by size
  SearchResult result_ = {};
  double begin_s_ = 0;
};

}  // namespace hethub
