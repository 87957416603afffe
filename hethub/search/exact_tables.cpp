#include "hethub/search/exact_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hethub {

LoadTables::LoadTables(const SearchRequest& request, const std::vector<RankClass>& classes,
                       std::vector<int> sizes, StagePricer& pricer)
    : sizes_(std::move(sizes)), layers_(request.model.layers) {
  const Recompute again = request.pins.recompute.value_or(Recompute::kNone);
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
        const double bytes = pricer.boundary_bytes(one.kind, sizes_[size]);
        hops[size] = {request.costs.transfer_cost(from, to, bytes),
                      request.costs.transfer_cost(to, from, bytes)};
      }
    }
  }
}

std::int64_t LoadTables::capacity(const PipelineShape& shape, const std::vector<int>& split,
                                  int size, double seconds, std::int64_t limit) const {
  const std::int64_t most = limit / sizes_[size];
  double micro_batches = static_cast<double>(most);
  for_each_load(shape, split, size, [&](const StageLoad& load) {
    if (load.work <= 0) return;
    micro_batches = std::min(micro_batches, (seconds - load.fill) / load.work * (1 + 1e-12));
  });
  if (micro_batches < 1) return 0;
  return static_cast<std::int64_t>(micro_batches) * sizes_[size];
}

double LoadTables::rate(const PipelineShape& shape, const std::vector<int>& split) const {
  double best = 0;
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    double slowest = 0;
    for_each_load(shape, split, static_cast<int>(size),
                  [&](const StageLoad& load) { slowest = std::max(slowest, load.work); });
    const double rate = slowest > 0 ? sizes_[size] / slowest : std::numeric_limits<double>::max();
    best = std::max(best, rate);
  }
  return best;
}

}  // namespace hethub
