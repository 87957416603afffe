#include "hethub/search/even_replicas.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace hethub {
namespace {

// With more kinds than that, only all of them together and each alone are looked at.
constexpr std::size_t kMostKinds = 5;

std::vector<int> kinds_in(std::uint32_t set, std::size_t kinds) {
  std::vector<int> all;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    if ((set >> kind & 1U) != 0) all.push_back(static_cast<int>(kind));
  }
  return all;
}

}  // namespace

EvenReplicas::EvenReplicas(const PipelineTables& tables) : tables_(tables) {
  const std::size_t kinds = tables.kinds.size();
  const std::uint32_t all = (1U << kinds) - 1;
  if (kinds <= kMostKinds) {
    for (std::uint32_t set = 1; set <= all; ++set) {
      add_options(set);
    }
    return;
  }
  add_options(all);
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    add_options(1U << kind);
  }
}

// Numbers of pipelines at which some kind gets so many devices in each.
void EvenReplicas::add_options(std::uint32_t kinds) {
  std::set<std::int64_t> numbers;
  for (const int kind : kinds_in(kinds, tables_.kinds.size())) {
    for (int each = 1; each <= tables_.layers && each <= tables_.available[kind]; ++each) {
      numbers.insert(tables_.available[kind] / each);
    }
  }
  for (const std::int64_t pipelines : numbers) {
    if (pipelines > tables_.global_batch) continue;
    for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
      add_option(kinds, pipelines, size);
    }
  }
}

void EvenReplicas::add_option(std::uint32_t kinds, std::int64_t pipelines, int size) {
  Option option{.kinds = kinds, .pipelines = pipelines};
  std::vector<std::int64_t> borders = {0, pipelines};  // where a kind's rest ends
  const std::vector<int> mine = kinds_in(kinds, tables_.kinds.size());
  for (const int kind : mine) {
    borders.push_back(tables_.available[kind] % pipelines);
  }
  std::sort(borders.begin(), borders.end());
  double exchange = 0;
  double update = 0;
  for (std::size_t border = 1; border < borders.size(); ++border) {
    if (borders[border] == borders[border - 1]) continue;
    std::vector<int> counts(tables_.kinds.size(), 0);
    for (const int kind : mine) {
      const std::int64_t have = tables_.available[kind];
      counts[kind] =
          static_cast<int>(have / pipelines + (borders[border - 1] < have % pipelines ? 1 : 0));
    }
    Group group{.pipelines = borders[border] - borders[border - 1]};
    if (!best_column(counts, size, group.column)) continue;
    exchange = std::max(exchange, group.column.exchange);
    update = std::max(update, group.column.update);
    option.groups.push_back(std::move(group));
  }
  if (option.groups.empty()) return;
  option.after = update + 2 * exchange;
  options_.push_back(std::move(option));
}

// Of the orders in which the kinds may stand.
bool EvenReplicas::best_column(std::vector<int> counts, int size, PipelineColumn& best) const {
  std::vector<int> order;
  for (int kind = 0; kind < std::ssize(counts); ++kind) {
    if (counts[kind] > 0) order.push_back(kind);
    counts[kind] = std::min(counts[kind], tables_.layers);
  }
  bool found = false;
  for (int turn = 0; turn < 2; ++turn) {
    PipelineColumn column;
    const bool fits = column_for(order, counts, size, column);
    if (fits && (!found || column.slowest < best.slowest ||
                 (column.slowest <= best.slowest && column.total < best.total))) {
      best = std::move(column);
      found = true;
    }
    if (order.size() < 2) break;
    std::reverse(order.begin(), order.end());
  }
  return found;
}

bool EvenReplicas::column_for(const std::vector<int>& order, const std::vector<int>& counts,
                              int size, PipelineColumn& column) const {
  double high = 0;
  for (const int kind : order) {
    for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
      if (tables_.choices[choice].kind != kind) continue;
      high = std::max(high, tables_.cost(size, choice, 0, tables_.layers).seconds);
    }
  }
  std::vector<PickedStage> stages;
  if (!deal_layers(order, counts, size, high, stages)) return false;
  column = column_of(tables_, size, stages);
  high = column.slowest;
  double low = 0;
  constexpr double kNear = 1e-4;
  while (high - low > kNear * high) {
    const double middle = (low + high) / 2;
    if (deal_layers(order, counts, size, middle, stages)) {
      column = column_of(tables_, size, stages);
      high = column.slowest;
    } else {
      low = middle;
    }
  }
  return true;
}

// From the last stage to the first: each takes the most layers that its time and memory allow, in
// the way (recompute or not) that allows more.
bool EvenReplicas::deal_layers(const std::vector<int>& order, const std::vector<int>& counts,
                               int size, double slowest, std::vector<PickedStage>& stages) const {
  stages.clear();
  int end = tables_.layers;
  for (auto kind = order.rbegin(); kind != order.rend() && end > 0; ++kind) {
    for (int device = 0; device < counts[*kind] && end > 0; ++device) {
      PickedStage most{.begin = end, .end = end};
      for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
        if (tables_.choices[choice].kind != *kind) continue;
        int begin = end;
        while (begin > 0) {
          const StageCost& cost = tables_.cost(size, choice, begin - 1, end);
          if (cost.seconds > slowest || cost.deepest <= std::ssize(stages)) break;
          --begin;
        }
        if (begin < most.begin) most = {choice, begin, end};
      }
      if (most.begin == end) break;  // nor could the next device of this kind
      stages.push_back(most);
      end = most.begin;
    }
  }
  std::reverse(stages.begin(), stages.end());
  return end == 0;
}

std::int64_t EvenReplicas::sequences_within(const Option& option, double seconds) const {
  std::int64_t all = 0;
  for (const Group& group : option.groups) {
    all += group.pipelines * tables_.sizes[group.column.size] *
           micro_batches_within(tables_, group.column, seconds - option.after);
  }
  return all;
}

// The options of disjoint sets of kinds that take most in that time, if they take the batch.
std::vector<int> EvenReplicas::choose(double seconds, std::int64_t most_pipelines,
                                      std::uint32_t kinds) const {
  const std::uint32_t all = (1U << tables_.kinds.size()) - 1;
  std::vector<std::int64_t> most(all + 1, 0);
  std::vector<int> which(all + 1, -1);
  for (int index = 0; index < std::ssize(options_); ++index) {
    const Option& option = options_[index];
    if (option.pipelines > most_pipelines || (option.kinds & ~kinds) != 0) continue;
    const std::int64_t sequences = sequences_within(option, seconds);
    if (sequences <= most[option.kinds]) continue;
    most[option.kinds] = sequences;
    which[option.kinds] = index;
  }
  std::vector<std::int64_t> reached(all + 1, 0);
  std::vector<std::uint32_t> last(all + 1, 0);  // the set that was taken last; 0: none
  for (std::uint32_t set = 1; set <= all; ++set) {
    const std::uint32_t lowest = set & ~(set - 1);
    reached[set] = reached[set ^ lowest];
    for (std::uint32_t part = set; part > 0; part = (part - 1) & set) {
      if ((part & lowest) == 0 || which[part] < 0) continue;
      if (most[part] + reached[set ^ part] <= reached[set]) continue;
      reached[set] = most[part] + reached[set ^ part];
      last[set] = part;
    }
  }
  std::vector<int> chosen;
  if (reached[all] < tables_.global_batch) return chosen;
  for (std::uint32_t set = all; set > 0;) {
    if (last[set] != 0) chosen.push_back(which[last[set]]);
    set ^= last[set] != 0 ? last[set] : set & ~(set - 1);
  }
  return chosen;
}

std::vector<ChosenPipeline> EvenReplicas::fastest(std::int64_t most_pipelines,
                                                  std::uint32_t kinds) const {
  double low = 0;
  double high = 1e-6;
  while (choose(high, most_pipelines, kinds).empty()) {
    low = high;
    high *= 4;
    if (high > 1e15) return {};
  }
  while (high - low > 1e-3 * high) {
    const double middle = (low + high) / 2;
    (choose(middle, most_pipelines, kinds).empty() ? low : high) = middle;
  }
  std::vector<PipelineColumn> columns;
  for (const int index : choose(high, most_pipelines, kinds)) {
    for (const Group& group : options_[index].groups) {
      columns.insert(columns.end(), static_cast<std::size_t>(group.pipelines), group.column);
    }
  }
  return balanced(tables_, columns);
}

// Fewer pipelines and fewer kinds, too: the tables know neither the latency of an exchange nor
// links between kinds.
std::vector<std::vector<ChosenPipeline>> EvenReplicas::best(std::size_t most) const {
  const std::uint32_t all = (1U << tables_.kinds.size()) - 1;
  const std::int64_t devices =
      std::accumulate(tables_.available.begin(), tables_.available.end(), std::int64_t{0});
  std::vector<std::vector<ChosenPipeline>> found;
  const auto add = [&](std::int64_t pipelines, std::uint32_t kinds) {
    std::vector<ChosenPipeline> one = fastest(pipelines, kinds);
    if (!one.empty()) found.push_back(std::move(one));
  };
  for (std::int64_t pipelines = devices; pipelines > 0; pipelines /= 2) {
    add(pipelines, all);
  }
  for (std::uint32_t kind = 1; kind < all; kind <<= 1U) {
    add(devices, all ^ kind);
    add(devices, kind);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return step_seconds_of(a) < step_seconds_of(b);
  });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace hethub
