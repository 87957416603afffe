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

  /// The loads of a shape's stages under a split, for the size with that index.
  std::vector<StageLoad> loads(const PipelineShape& shape, const std::vector<int>& split,
                               int size) const;

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

}  // namespace hethub
