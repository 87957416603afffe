#include "hethub/search/exact_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hethub {

LoadTables::LoadTables(const SearchRequest& request, const std::vector<RankClass>& classes,
                       std::vector<int> sizes, StagePricer& pricer)
    : sizes_(std::move(sizes)), layers_(request.model.layers) {
  const bool again = request.pins.recompute == Recompute::kFull;
  const double sequence_bytes = 4.0 * request.sequence_length * request.model.hidden_size;
  for (const RankClass& one : classes) {
    auto& by_size = seconds_.emplace_back();
    for (const int size : sizes_) {
      auto& table = by_size.emplace_back((layers_ + 1) * (layers_ + 1), 0.0);
      for (int begin = 0; begin < layers_; ++begin) {
        for (int end = begin + 1; end <= layers_; ++end) {
          const StageNumbers numbers = pricer.stage(one.kind, size, {begin, end}, again);
          table[begin * (layers_ + 1) + end] = numbers.phase_seconds[0] + numbers.phase_seconds[1];
        }
      }
    }
    auto& row = hops_.emplace_back();
    for (const RankClass& other : classes) {
      auto& hops = row.emplace_back(sizes_.size());
      const bool same = &one == &other;
      if (same && one.ranks.size() < 2) continue;
      const int from = one.ranks.front();
      const int to = same ? one.ranks[1] : other.ranks.front();
      for (std::size_t size = 0; size < sizes_.size(); ++size) {
        const double bytes = sequence_bytes * sizes_[size];
        hops[size] = {request.costs.transfer_cost(from, to, bytes),
                      request.costs.transfer_cost(to, from, bytes)};
      }
    }
  }
}

// Copies for a message keep the stage that makes them busy, so they are work of that stage; what a
// message passes before a stage's first forward, and after its last backward, is its fill.
std::vector<StageLoad> LoadTables::loads(const PipelineShape& shape, const std::vector<int>& split,
                                         int size) const {
  std::vector<StageLoad> all(shape.size());
  double fill = 0;
  int begin = 0;
  for (std::size_t stage = 0; stage < shape.size(); ++stage) {
    const int end = begin + split[stage];
    StageLoad& load = all[stage];
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
  }
  return all;
}

std::int64_t LoadTables::capacity(const PipelineShape& shape, const std::vector<int>& split,
                                  int size, double seconds, std::int64_t limit) const {
  const std::int64_t most = limit / sizes_[size];
  double micro_batches = static_cast<double>(most);
  for (const StageLoad& load : loads(shape, split, size)) {
    if (load.work <= 0) continue;
    micro_batches = std::min(micro_batches, (seconds - load.fill) / load.work * (1 + 1e-12));
  }
  if (micro_batches < 1) return 0;
  return static_cast<std::int64_t>(micro_batches) * sizes_[size];
}

double LoadTables::rate(const PipelineShape& shape, const std::vector<int>& split) const {
  double best = 0;
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    double slowest = 0;
    for (const StageLoad& load : loads(shape, split, static_cast<int>(size))) {
      slowest = std::max(slowest, load.work);
    }
    const double rate = slowest > 0 ? sizes_[size] / slowest : std::numeric_limits<double>::max();
    best = std::max(best, rate);
  }
  return best;
}

}  // namespace hethub
