#include "hethub/search/changes.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/predict/what_if.h"
#include "hethub/search/parallel.h"
#include "hethub/search/search_cache.h"

namespace hethub {
namespace {

std::string content_of(const Node& node) {
  std::string all;
  for (const DeviceGroup& group : node.devices) {
    all += text(all.empty() ? "" : ", ", group.count, " ", group.kind);
  }
  return all;
}

// Nodes that have the same devices count once.
std::vector<ClusterChange> more_nodes(const CostModel& costs) {
  std::vector<ClusterChange> all;
  const std::vector<Node>& nodes = costs.cluster().nodes;
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    const auto same = [&](const Node& other) { return other.devices == nodes[index].devices; };
    const auto here = nodes.begin() + static_cast<std::ptrdiff_t>(index);
    if (nodes[index].devices.empty() || std::any_of(nodes.begin(), here, same)) continue;
    Cluster larger = costs.cluster();
    ++larger.nodes[index].count;
    all.push_back(
        {text("one more node like ", nodes[index].name, " (", content_of(nodes[index]), ")"),
         std::move(larger), costs.costs()});
  }
  return all;
}

std::vector<ClusterChange> more_memory(const CostModel& costs) {
  std::vector<ClusterChange> all;
  for (std::size_t index = 0; index < costs.cluster().kinds.size(); ++index) {
    Cluster larger = costs.cluster();
    Kind& kind = larger.kinds[index];
    kind.memory_bytes *= 2;
    std::string what = text("twice the memory of ", kind.name);
    all.push_back({std::move(what), std::move(larger), costs.costs()});
  }
  return all;
}

struct Found {
  double tokens_per_second = 0;
  bool complete = false;
};

// A cache for other costs, which shares what it can with the request's.
SearchCache cache_for(const SearchRequest& request, const CostModel& costs) {
  const bool of_job = request.cache != nullptr && request.cache->form() == request.form();
  return of_job ? SearchCache(*request.cache, costs)
                : SearchCache(request.model, costs, request.form());
}

// The best plan of the request on another cluster.
Found find_with(const SearchRequest& request, const Strategy& strategy, const CostModel& costs,
                SearchCache& cache) {
  SearchRequest changed = request_on(costs, request);
  changed.cache = &cache;
  changed.quick = true;
  changed.keep = 1;
  const SearchResult result = strategy.find(changed);
  return {result.best.empty() ? 0 : result.best.front().prediction.tokens_per_second,
          result.complete};
}

// What a plan reaches on another cluster that has room for it.
double rate_with(const Plan& plan, const ModelConfig& model, SearchCache& cache) {
  const std::vector<Segment> segments = segments_of(plan, model);
  const StepNumbers numbers = cache.pricer.numbers(plan, segments);
  const auto tokens = static_cast<double>(plan.global_batch * plan.sequence_length);
  return tokens / cache.pricer.step_seconds(plan, segments, numbers);
}

// Also false where a cost is not known, e.g. of a link that the cluster has no use for.
bool fits_with(const SearchRequest& request, const Strategy& strategy, const CostModel& costs) {
  try {
    SearchCache cache = cache_for(request, costs);
    return find_with(request, strategy, costs, cache).tokens_per_second > 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig) throw;
    return false;
  }
}

}  // namespace

std::vector<ClusterChange> changes_of(const CostModel& costs) {
  std::vector<ClusterChange> all = more_nodes(costs);
  if (!costs.cluster().links.empty() || !costs.costs().links.empty()) {
    const CostModel faster = improved(costs, {.what = "links", .factor = 2});
    all.push_back({"links twice as fast", faster.cluster(), faster.costs()});
  }
  for (ClusterChange& change : more_memory(costs)) {
    all.push_back(std::move(change));
  }
  return all;
}

std::vector<ChangeEffect> effects_of_changes(const SearchRequest& request, const Strategy& strategy,
                                             const Plan& winner) {
  const std::vector<ClusterChange> changes = changes_of(request.costs);
  std::vector<ChangeEffect> effects(changes.size());
  SearchRequest part = request;
  part.time_limit_s = request.time_limit_s / static_cast<double>(changes.size());
  for_each_in_parallel(static_cast<int>(changes.size()), [&](int index) {
    const CostModel costs(changes[index].cluster, changes[index].costs);
    ChangeEffect& effect = effects[index];
    effect.what = changes[index].what;
    try {
      SearchCache cache = cache_for(request, costs);
      const Found found = find_with(part, strategy, costs, cache);
      effect.tokens_per_second =
          std::max(found.tokens_per_second, rate_with(winner, request.model, cache));
      effect.proven = found.complete;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidConfig) throw;
      effect.not_known = error.what();
    }
  });
  return effects;
}

std::string change_that_fits(const SearchRequest& request, const Strategy& strategy) {
  std::vector<ClusterChange> changes = more_memory(request.costs);
  for (ClusterChange& change : more_nodes(request.costs)) {
    changes.push_back(std::move(change));
  }
  SearchRequest part = request;
  part.time_limit_s = request.time_limit_s / static_cast<double>(changes.size() + 1);
  if (request.sequence_length > 1) {
    SearchRequest shorter = part;
    shorter.sequence_length /= 2;
    if (fits_with(shorter, strategy, request.costs)) {
      return text("--sequence-length ", shorter.sequence_length);
    }
  }
  for (ClusterChange& change : changes) {
    const CostModel costs(std::move(change.cluster), std::move(change.costs));
    if (fits_with(part, strategy, costs)) return change.what;
  }
  return "";
}

}  // namespace hethub
