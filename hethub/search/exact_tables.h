#pragma once

#include <map>
#include <string>
#include <vector>

#include "hethub/search/space.h"
#include "hethub/search/stage_pricer.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// What a stage adds to a pipeline's time, whatever the schedule: nothing happens on it before its
/// `fill` or after, and each micro-batch keeps it busy for its `work`. So m micro-batches take
/// fill + m · work at least.
struct StageLoad {
  double fill = 0;
  double work = 0;
};

/// Loads of every stage of every shape, from the same numbers that the simulation uses.
class LoadTables {
 public:
  /// `sizes` are the micro-batch sizes by index. Throws kInvalidConfig if a link is not known.
  LoadTables(const SearchRequest& request, const std::vector<RankClass>& classes,
             std::vector<int> sizes, StagePricer& pricer);

  const std::vector<int>& sizes() const { return sizes_; }

  /// The load of each stage of a shape under a split, in order, for the size with that index.
  template <typename Visit>
  void for_each_load(const PipelineShape& shape, const std::vector<int>& split, int size,
                     Visit&& visit) const;

  /// The most sequences the pipeline can take in `seconds` with that size, at most `limit`.
  std::int64_t capacity(const PipelineShape& shape, const std::vector<int>& split, int size,
                        double seconds, std::int64_t limit) const;

  /// Sequences per second that no number of micro-batches exceeds, over all sizes.
  double rate(const PipelineShape& shape, const std::vector<int>& split) const;

 private:
  struct Hop {
    TransferCost to = {};    // the activation, first class to second
    TransferCost back = {};  // the gradient, second class to first
  };

  std::vector<int> sizes_;
  int layers_;
  std::vector<std::vector<std::vector<double>>> seconds_;  // [class][size][begin * (L + 1) + end]
  std::vector<std::vector<std::vector<Hop>>> hops_;        // [class][class][size]
};

// Copies for a message keep the stage that makes them busy, so they are work of that stage; what a
// message passes before a stage's first forward, and after its last backward, is its fill.
template <typename Visit>
void LoadTables::for_each_load(const PipelineShape& shape, const std::vector<int>& split, int size,
                               Visit&& visit) const {
  double fill = 0;
  int begin = 0;
  for (std::size_t stage = 0; stage < shape.size(); ++stage) {
    const int end = begin + split[stage];
    StageLoad load;
    load.work = seconds_[shape[stage]][size][begin * (layers_ + 1) + end];
    begin = end;
    if (stage > 0) {
      const Hop& before = hops_[shape[stage - 1]][shape[stage]][size];
      load.work += before.to.upload_seconds + before.back.download_seconds;
      fill += before.to.wire_seconds + before.back.wire_seconds;
    }
    if (stage + 1 < shape.size()) {
      const Hop& after = hops_[shape[stage]][shape[stage + 1]][size];
      load.work += after.to.download_seconds + after.back.upload_seconds;
    }
    load.fill = fill;
    fill += load.work;
    visit(load);
  }
}

}  // namespace hethub
