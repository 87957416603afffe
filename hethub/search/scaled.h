#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/search/memory_check.h"
#include "hethub/search/pipeline_tables.h"
#include "hethub/search/stage_memory.h"
#include "hethub/search/stage_pricer.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// The strategy "exact" for more devices than can be looked at one by one. See make_strategy.
///
/// Devices are told apart by their kind only. EvenReplicas chooses pipelines, and of up to 32
/// devices search_replicas too, from a table: compute as in the simulation, messages over links
/// inside a kind, memory from StageMemory. Their plans are then simulated and their memory planned
/// in full; if no plan fits, kinds are taken to have less, and the search is run again. The bound
/// holds for every plan: its pipelines need not fill nor send messages, and layers and memory are
/// shared out freely.
class ScaledSearch {
 public:
  /// Keeps a reference to the request, which Strategy::find has checked.
  explicit ScaledSearch(const SearchRequest& request);

  SearchResult run();

 private:
  void list_choices();
  void list_sizes();
  double message_seconds(int kind, int size);
  double exchange_seconds(double bytes) const;
  int deepest(double lanes, int size) const;
  PipelineTables tables(bool relaxed);
  void fill(PipelineTables& tables, int size, int choice, bool relaxed);
  Plan plan_of(const std::vector<ChosenPipeline>& pipelines) const;
  bool fit(const Plan& plan);
  std::int64_t try_plan(int only_kind, std::int64_t most_replicas);
  void try_more_and_more(int only_kind, double seconds);
  void try_even();
  double work_bound();
  bool is_kept(const Plan& plan) const;
  void try_longest();
  void keep(const Plan& plan);
  double seconds_left() const;

  const SearchRequest& request_;
  StagePricer pricer_;
  MemoryCheck memory_;
  StageMemory stage_memory_;
  std::vector<std::string> kinds_ = {};
  std::vector<std::vector<int>> ranks_ = {};  // of the cluster, by kind
  std::vector<StageChoice> choices_ = {};
  std::vector<Recompute> recompute_ = {};  // by choice
  std::vector<int> sizes_ = {};
  std::vector<double> usable_bytes_ = {};  // by kind
  SearchResult result_ = {};
  std::string schedule_ = {};
  double begin_s_ = 0;
};

}  // namespace hethub
