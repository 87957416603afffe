#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hethub/search/search_cache.h"
#include "hethub/search/stage_menu.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// The strategy "exact" for more devices than can be looked at one by one. See make_strategy.
///
/// Devices are told apart by their kind only. EvenReplicas chooses pipelines, and of up to 32
/// devices search_replicas too, from the tables of StageMenu. Their plans are then simulated and
/// their memory planned in full; if no plan fits, kinds are taken to have less, and the search is
/// run again. The bound holds for every plan: its pipelines need not fill nor send messages, and
/// layers and memory are shared out freely.
class ScaledSearch {
 public:
  /// Keeps a reference to the request, which Strategy::find has checked.
  explicit ScaledSearch(const SearchRequest& request);

  SearchResult run();

 private:
  bool fit(const Plan& plan);
  std::int64_t try_plan(int only_kind, std::int64_t most_replicas);
  void try_more_and_more(int only_kind, double seconds);
  void try_even();
  Prediction prediction_of(const Plan& plan);
  bool is_kept(const Plan& plan) const;
  void try_longest();
  void keep(const Plan& plan);
  double seconds_left() const;

  const SearchRequest& request_;
  std::unique_ptr<SearchCache> own_;  // where the request brings none
  SearchCache& cache_;
  StageMenu menu_;
  std::vector<double> usable_bytes_ = {};  // by kind
  SearchResult result_ = {};
  double begin_s_ = 0;
};

}  // namespace hethub
