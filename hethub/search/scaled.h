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
/// devices search_replicas too, from the tables of StageMenu. Their plans are then simulated, but
/// for those that a closed form proves slower than the ones kept, and their memory planned in full
/// where it is not plain that they fit; if no plan fits, kinds are taken to have less, and the
/// search is run again. The bound holds for every plan: its pipelines need not fill nor send
/// messages, and layers and memory are shared out freely.
class ScaledSearch {
 public:
  /// Keeps a reference to the request, which Strategy::find has checked.
  explicit ScaledSearch(const SearchRequest& request);

  SearchResult run();

 private:
  /// A plan with what is computed of it once.
  struct Trial {
    Plan plan = {};
    std::vector<Segment> segments = {};
    Prediction prediction = {};  // without memory; if quick, of the times only
  };

  bool surely_fits(const Plan& plan);
  bool fits(const Plan& plan, const std::vector<Segment>& segments);
  bool consider(const std::vector<ChosenPipeline>& pipelines);
  void consider_all(const std::vector<std::vector<ChosenPipeline>>& sets);
  void simulate_all(std::vector<Trial>& trials);
  double least_seconds(const std::vector<ChosenPipeline>& pipelines);
  double threshold() const;
  std::int64_t try_plan(int only_kind, std::int64_t most_replicas);
  void try_more_and_more(int only_kind, double seconds);
  void try_even();
  void finish_kept();
  bool is_kept(const Plan& plan) const;
  void keep(Trial trial);
  double seconds_left() const;

  const SearchRequest& request_;
  std::unique_ptr<SearchCache> own_;  // where the request brings none
  SearchCache& cache_;
  StageMenu menu_;
  std::vector<double> usable_bytes_ = {};  // by kind
  std::vector<Trial> kept_ = {};           // fastest first
  SearchResult result_ = {};
  double begin_s_ = 0;
};

}  // namespace hethub
