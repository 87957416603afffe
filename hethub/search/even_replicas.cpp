#include "hethub/search/even_replicas.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::size_t kMostKinds = 5;   // of which all sets are looked at
constexpr std::size_t kMostAtAll = 60;  // that a KindSet has bits for

// 1, 2, ... 8, then ever larger steps.
std::vector<int> sparse_numbers(int most) {
  std::vector<int> numbers;
  for (int number = 1; number <= most; number += std::max(1, number / 7)) {
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::vector<int> EvenReplicas::kinds_in(KindSet set) const {
  std::vector<int> all;
  for (int kind = 0; kind < std::ssize(tables_.kinds); ++kind) {
    if ((set >> kind & 1U) != 0) all.push_back(kind);
  }
  return all;
}

// Ascending.
std::vector<int> EvenReplicas::widths_of(int kind) const {
  std::set<int> widths;
  for (const StageChoice& choice : tables_.choices) {
    if (choice.kind == kind && choice.devices <= tables_.available[kind]) {
      widths.insert(choice.devices);
    }
  }
  return {widths.begin(), widths.end()};
}

EvenReplicas::EvenReplicas(const PipelineTables& tables) : tables_(tables) {
  const std::size_t kinds = tables.kinds.size();
  if (kinds > kMostAtAll) {
    throw Error(ErrorCode::kUnsupported, {.what = "planner: kinds",
                                          .found = text(kinds),
                                          .expected = text("at most ", kMostAtAll),
                                          .fix = "leave some out with --pin kinds="});
  }
  const KindSet all = (KindSet{1} << kinds) - 1;
  if (kinds <= kMostKinds) {
    for (KindSet set = 1; set <= all; ++set) {
      add_options(set);
    }
  } else {
    add_options(all);
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      add_options(KindSet{1} << kind);
    }
  }
  drop_the_slower();
  vary_widths();
}

// Every kind as wide as it may be up to some width; numbers of pipelines at which some kind gets
// so many stages in each.
void EvenReplicas::add_options(KindSet kinds) {
  const std::vector<int> mine = kinds_in(kinds);
  std::set<std::vector<int>> vectors;
  for (const int most : {1, 2, 4, 8}) {
    std::vector<int> widths(tables_.kinds.size(), 0);
    for (const int kind : mine) {
      for (const int width : widths_of(kind)) {
        if (width <= most || widths[kind] == 0) widths[kind] = width;
      }
      if (widths[kind] == 0) return;  // it has no device
    }
    vectors.insert(widths);
  }
  for (const std::vector<int>& widths : vectors) {
    std::set<std::int64_t> numbers;
    for (const int kind : mine) {
      const int groups = tables_.available[kind] / widths[kind];
      for (const int each : sparse_numbers(std::min(tables_.layers, groups))) {
        numbers.insert(groups / each);
      }
    }
    for (const std::int64_t pipelines : numbers) {
      double best = std::numeric_limits<double>::infinity();
      for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
        if (pipelines * tables_.sizes[size] > tables_.global_batch) break;
        const double seconds = add_option(kinds, widths, pipelines, size);
        constexpr double kHopeless = 1.3;  // larger micro-batches fill pipelines worse still
        if (seconds > kHopeless * best) break;
        best = std::min(best, seconds);
      }
    }
  }
}

// Returns its seconds; infinity if no pipeline fits.
double EvenReplicas::add_option(KindSet kinds, const std::vector<int>& widths,
                                std::int64_t pipelines, int size) {
  Option option{.kinds = kinds, .widths = widths, .size = size, .pipelines = pipelines};
  std::vector<std::int64_t> borders = {0, pipelines};  // where a kind's rest ends
  const std::vector<int> mine = kinds_in(kinds);
  for (const int kind : mine) {
    borders.push_back(tables_.available[kind] / widths[kind] % pipelines);
  }
  std::sort(borders.begin(), borders.end());
  double exchange = 0;
  double mixed = 0;
  double update = 0;
  for (std::size_t border = 1; border < borders.size(); ++border) {
    if (borders[border] == borders[border - 1]) continue;
    std::vector<int> counts(tables_.kinds.size(), 0);
    for (const int kind : mine) {
      const std::int64_t have = tables_.available[kind] / widths[kind];
      counts[kind] =
          static_cast<int>(have / pipelines + (borders[border - 1] < have % pipelines ? 1 : 0));
    }
    Group group{.pipelines = borders[border] - borders[border - 1]};
    if (!best_column(counts, widths, size, group.column)) continue;
    exchange = std::max(exchange, group.column.exchange);
    mixed = std::max(mixed, group.column.mixed_exchange);
    update = std::max(update, group.column.update);
    option.groups.push_back(std::move(group));
  }
  if (option.groups.empty()) return std::numeric_limits<double>::infinity();
  const bool alike = std::all_of(option.groups.begin(), option.groups.end(), [&](const Group& one) {
    return one.column.stages == option.groups.front().column.stages;
  });
  option.after_mixed = update + 2 * mixed;
  option.after = alike ? update + (pipelines > 1 ? 2 * exchange : 0) : option.after_mixed;
  option.seconds = seconds_alone(option);
  options_.push_back(std::move(option));
  return options_.back().seconds;
}

double EvenReplicas::seconds_alone(const Option& option) const {
  double low = 0;
  double high = 1e-6;
  while (sequences_within(option, high) < tables_.global_batch) {
    low = high;
    high *= 4;
  }
  while (high - low > 1e-4 * high) {
    const double middle = (low + high) / 2;
    (sequences_within(option, middle) < tables_.global_batch ? low : high) = middle;
  }
  return high + option.after;
}

// Of options with the same kinds, widths and number of pipelines, the fastest micro-batch size is
// kept.
void EvenReplicas::drop_the_slower() {
  std::map<std::tuple<KindSet, std::vector<int>, std::int64_t>, Option> best;
  for (Option& option : options_) {
    Option& known = best[{option.kinds, option.widths, option.pipelines}];
    if (known.groups.empty() || option.seconds < known.seconds) known = std::move(option);
  }
  options_.clear();
  for (auto& [key, option] : best) {
    options_.push_back(std::move(option));
  }
}

// The best options once more, with one kind wider or narrower.
void EvenReplicas::vary_widths() {
  constexpr std::size_t kMost = 4;
  std::vector<Option> bases = options_;
  std::sort(bases.begin(), bases.end(),
            [](const Option& a, const Option& b) { return a.seconds < b.seconds; });
  std::erase_if(bases, [&](const Option& one) { return kinds_in(one.kinds).size() < 2; });
  if (bases.size() > kMost) bases.resize(kMost);
  for (const Option& base : bases) {
    for (const int kind : kinds_in(base.kinds)) {
      for (const int width : widths_of(kind)) {
        if (width == base.widths[kind]) continue;
        std::vector<int> widths = base.widths;
        widths[kind] = width;
        add_option(base.kinds, widths, base.pipelines, base.size);
      }
    }
  }
}

// Of the orders in which the kinds may stand.
bool EvenReplicas::best_column(std::vector<int> counts, const std::vector<int>& widths, int size,
                               PipelineColumn& best) const {
  std::vector<int> order;
  for (int kind = 0; kind < std::ssize(counts); ++kind) {
    if (counts[kind] > 0) order.push_back(kind);
    counts[kind] = std::min(counts[kind], tables_.layers);
  }
  bool found = false;
  for (int turn = 0; turn < 2; ++turn) {
    PipelineColumn column;
    const bool fits = column_for(order, counts, widths, size, column);
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
                              const std::vector<int>& widths, int size,
                              PipelineColumn& column) const {
  double high = 0;
  for (const int kind : order) {
    for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
      if (tables_.choices[choice].kind != kind) continue;
      high = std::max(high, tables_.cost(size, choice, 0, tables_.layers).seconds);
    }
  }
  std::vector<PickedStage> stages;
  if (!deal_layers(order, counts, widths, size, high, stages)) return false;
  column = column_of(tables_, size, stages);
  high = column.slowest;
  double low = 0;
  constexpr double kNear = 5e-4;
  while (high - low > kNear * high) {
    const double middle = (low + high) / 2;
    if (deal_layers(order, counts, widths, size, middle, stages)) {
      column = column_of(tables_, size, stages);
      high = std::min(middle, column.slowest);
    } else {
      low = middle;
    }
  }
  return true;
}

// From the last stage to the first: each takes the most layers that its time and memory allow, in
// the way (recompute or not) that allows more.
bool EvenReplicas::deal_layers(const std::vector<int>& order, const std::vector<int>& counts,
                               const std::vector<int>& widths, int size, double slowest,
                               std::vector<PickedStage>& stages) const {
  stages.clear();
  int end = tables_.layers;
  for (auto kind = order.rbegin(); kind != order.rend() && end > 0; ++kind) {
    for (int device = 0; device < counts[*kind] && end > 0; ++device) {
      PickedStage most{.begin = end, .end = end};
      for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
        const StageChoice& one = tables_.choices[choice];
        if (one.kind != *kind || one.devices != widths[*kind]) continue;
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
           micro_batches_within(tables_, group.column, seconds);
  }
  return all;
}

// The options of disjoint sets of kinds that take most in that time, if they take the batch.
std::vector<int> EvenReplicas::choose(double seconds, std::int64_t most_pipelines,
                                      KindSet kinds) const {
  const std::size_t count = tables_.kinds.size();
  std::map<KindSet, std::pair<std::int64_t, int>> best;  // by set: sequences, option
  for (int index = 0; index < std::ssize(options_); ++index) {
    const Option& option = options_[index];
    if (option.pipelines > most_pipelines || (option.kinds & ~kinds) != 0) continue;
    const std::int64_t sequences = sequences_within(option, seconds - option.after_mixed);
    auto& known = best[option.kinds];
    if (sequences > known.first) known = {sequences, index};
  }
  const KindSet all = (KindSet{1} << count) - 1;
  std::vector<std::pair<std::int64_t, std::vector<int>>> reached;  // by set: with these options
  if (count > kMostKinds) {                                        // each kind alone
    reached.resize(1);
    for (const auto& [set, one] : best) {
      if (set == all || one.first == 0) continue;
      reached[0].first += one.first;
      reached[0].second.push_back(one.second);
    }
  } else {
    reached.resize(all + 1);
    for (KindSet set = 1; set <= all; ++set) {
      const KindSet lowest = set & ~(set - 1);
      reached[set] = reached[set ^ lowest];
      for (const auto& [part, one] : best) {
        if ((part & lowest) == 0 || (part & ~set) != 0 || one.first == 0) continue;
        const auto& [rest, options] = reached[set ^ part];
        if (one.first + rest <= reached[set].first) continue;
        reached[set] = {one.first + rest, options};
        reached[set].second.push_back(one.second);
      }
    }
  }
  if (reached.back().first < tables_.global_batch) return {};
  return reached.back().second;
}

std::vector<ChosenPipeline> EvenReplicas::pipelines_of(const std::vector<int>& chosen) const {
  std::vector<PipelineColumn> columns;
  for (const int index : chosen) {
    for (const Group& group : options_[index].groups) {
      columns.insert(columns.end(), static_cast<std::size_t>(group.pipelines), group.column);
    }
  }
  return balanced(tables_, columns);
}

std::vector<ChosenPipeline> EvenReplicas::fastest(std::int64_t most_pipelines,
                                                  KindSet kinds) const {
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
  return pipelines_of(choose(high, most_pipelines, kinds));
}

// The fastest options by themselves, a few of each set of kinds; then several together, of fewer
// pipelines and fewer kinds, too: the tables know neither the latency of an exchange nor all links.
std::vector<std::vector<ChosenPipeline>> EvenReplicas::best(std::size_t most) const {
  const KindSet all = (KindSet{1} << tables_.kinds.size()) - 1;
  std::vector<std::vector<ChosenPipeline>> found;
  std::vector<int> order(options_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return options_[a].seconds < options_[b].seconds; });
  std::map<KindSet, int> taken;
  constexpr int kOfEach = 3;
  for (const int index : order) {
    if (found.size() < most && ++taken[options_[index].kinds] <= kOfEach) {
      found.push_back(pipelines_of({index}));
    }
  }
  const std::int64_t devices =
      std::accumulate(tables_.available.begin(), tables_.available.end(), std::int64_t{0});
  const auto add = [&](std::int64_t pipelines, KindSet kinds) {
    std::vector<ChosenPipeline> one = fastest(pipelines, kinds);
    if (!one.empty()) found.push_back(std::move(one));
  };
  if (tables_.kinds.size() > 1) {
    for (std::int64_t pipelines = devices; pipelines > 0; pipelines /= 4) {
      add(pipelines, all);
    }
    for (KindSet kind = 1; kind < all; kind <<= 1U) {
      add(devices, all ^ kind);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return step_seconds_of(a) < step_seconds_of(b);
  });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace hethub
