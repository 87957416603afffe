#include "hethub/search/changes.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/predict/what_if.h"

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

// The best plan of the request on another cluster.
Found find_with(const SearchRequest& request, const Strategy& strategy, const CostModel& costs,
                double limit_s) {
  SearchRequest changed = request_on(costs, request);
  changed.quick = true;
  changed.keep = 1;
  changed.time_limit_s = limit_s;
  const SearchResult result = strategy.find(changed);
  return {result.best.empty() ? 0 : result.best.front().prediction.tokens_per_second,
          result.complete};
}

// Also false where a cost is not known, e.g. of a link that the cluster has no use for.
bool fits_with(const SearchRequest& request, const Strategy& strategy, const CostModel& costs,
               double limit_s) {
  try {
    return find_with(request, strategy, costs, limit_s).tokens_per_second > 0;
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
  std::vector<ChangeEffect> effects;
  std::vector<ClusterChange> changes = changes_of(request.costs);
  const double limit_s = request.time_limit_s / static_cast<double>(changes.size());
  for (ClusterChange& change : changes) {
    const CostModel costs(std::move(change.cluster), std::move(change.costs));
    ChangeEffect effect{.what = std::move(change.what)};
    try {
      const Found found = find_with(request, strategy, costs, limit_s);
      const Prediction same = predict(winner, request.model, costs);
      effect.tokens_per_second = std::max(found.tokens_per_second, same.tokens_per_second);
      effect.proven = found.complete;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidConfig) throw;
      effect.not_known = error.what();
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

std::string change_that_fits(const SearchRequest& request, const Strategy& strategy) {
  std::vector<ClusterChange> changes = more_memory(request.costs);
  for (ClusterChange& change : more_nodes(request.costs)) {
    changes.push_back(std::move(change));
  }
  const double limit_s = request.time_limit_s / static_cast<double>(changes.size() + 1);
  if (request.sequence_length > 1) {
    SearchRequest shorter = request;
    shorter.sequence_length /= 2;
    if (fits_with(shorter, strategy, request.costs, limit_s)) {
      return text("--sequence-length ", shorter.sequence_length);
    }
  }
  for (ClusterChange& change : changes) {
    const CostModel costs(std::move(change.cluster), std::move(change.costs));
    if (fits_with(request, strategy, costs, limit_s)) return change.what;
  }
  return "";
}

}  // namespace hethub
