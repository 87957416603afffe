#pragma once

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hethub/base/deadline.h"
#include "hethub/search/exact_tables.h"
#include "hethub/search/search_cache.h"
#include "hethub/search/space.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// One run of the strategy "exact". See make_strategy.
///
/// Sets of shapes are taken in the order of the rate they could reach. Inside a set: the splits of
/// every pipeline, then micro-batch size and count of every pipeline, then the simulation. At each
/// level, what is proven slower than the last plan kept is passed over.
class ExactSearch {
 public:
  /// Keeps a reference to the request, which Strategy::find has checked.
  explicit ExactSearch(const SearchRequest& request);

  SearchResult run();

  /// How many splits of shapes such a search looks through, pins left aside: with more than some
  /// hundred thousand its time goes by before it has looked at most of them.
  static double splits_of_space(const SearchRequest& request);

 private:
  ExactSearch(const SearchRequest& request, std::unique_ptr<SearchCache> own);

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Times closer than this are equal: the simulation adds in another order than the bounds.
  static constexpr double kSlack = 1e-9;

  /// Pipelines of which all orders are looked at.
  static constexpr int kMostOrdered = 4;

  /// One pipeline as it is being chosen.
  struct Choice {
    int shape = 0;
    int split = 0;
    int size = 0;  ///< position in the micro-batch sizes
    int micro_batches = 0;

    friend auto operator<=>(const Choice&, const Choice&) = default;
  };
  struct Kept {
    Plan plan = {};
    double seconds = 0;
  };

  static std::vector<RankClass> usable_classes(const SearchRequest& request);
  bool is_mixed(const PipelineShape& shape) const;
  void list_shapes();
  bool shape_pinned_out(const PipelineShape& shape) const;
  bool split_pinned_out(const std::vector<int>& split) const;
  const std::vector<std::vector<int>>& splits_of(int shape) const { return *shape_splits_[shape]; }
  void rate_shapes();
  std::int64_t shape_capacity(int shape);
  std::int64_t split_capacity(int shape, int split, double seconds) const;

  using RatedCombination = std::pair<double, std::vector<int>>;  // sequences a second, shapes
  void dive_everywhere(const std::vector<RatedCombination>& combinations);
  bool dives_over() const;
  void dive(const std::vector<int>& combination, int size);
  void explore(const std::vector<int>& combination);
  void choose_splits(const std::vector<int>& combination, std::vector<Choice>& chosen);
  bool may_fit(int shape, int split);
  std::vector<std::pair<std::vector<int>, Choice>> ranks_of(
      const std::vector<Choice>& chosen) const;
  void explore_orders(std::vector<Choice>& chosen);
  void explore_layout(std::vector<Choice>& chosen);
  void choose_batches(std::vector<Choice>& chosen, std::size_t next, std::int64_t left);
  double bound_of(const std::vector<Choice>& chosen) const;
  void consider(const std::vector<Choice>& chosen);

  Plan plan_of(const std::vector<Choice>& chosen) const;
  double simulate_plan(const Plan& plan, StepPart part);
  void fit_and_keep(Plan plan, double seconds);
  void recompute_least(Plan& plan, const MemoryFault& fault);
  void note_shortage(const Plan& plan, const MemoryFault& fault);
  double threshold() const;
  bool out_of_time();
  double proven_bound(const std::vector<std::vector<int>>& rest) const;
  bool has_room(const std::vector<std::vector<int>>& rest, double seconds) const;

  const SearchRequest& request_;
  std::vector<RankClass> classes_;
  std::unique_ptr<SearchCache> own_;  // where the request brings none
  StagePricer& pricer_;
  MemoryCheck& memory_;
  StageMemory& stage_memory_;
  std::vector<int> sizes_;
  LoadTables tables_;
  std::vector<PipelineShape> shapes_;
  std::vector<std::vector<std::vector<int>>> splits_;               // by number of stages
  std::vector<std::vector<std::vector<int>>> even_splits_;          // likewise, of one kind
  std::vector<const std::vector<std::vector<int>>*> shape_splits_;  // by shape: one of the above
  std::vector<double> rates_;  // by shape: the most sequences a second that any of its splits has
  std::vector<int> best_splits_;                             // by shape: which that is
  std::vector<std::pair<double, std::int64_t>> capacities_;  // by shape: at which threshold, what
  double after_pipelines_ = 0;                               // likewise
  double after_norm_ = 0;                                    // of the layout being explored
  std::vector<Segment> segments_;                            // likewise
  StepNumbers optimizer_;                                    // likewise
  std::vector<Kept> kept_;
  SearchResult result_;
  std::chrono::steady_clock::time_point begin_;
  Deadline end_;
  Deadline proof_end_;   // a search that has been stopped may prove a bound until then
  bool listed_ = false;  // all splits of all shapes
  bool stopped_ = false;
};

}  // namespace hethub
