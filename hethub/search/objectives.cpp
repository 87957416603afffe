#include "hethub/search/objectives.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "hethub/base/clock.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::array<std::string_view, 4> kObjectives = {"tokens_per_second", "usd_per_token",
                                                         "joules_per_token", "devices"};
constexpr double kMostOfEvery = 64;
constexpr double kMostChoices = 1024;

struct KindDevices {
  int all = 0;
  int per_node = 0;  // of the first node that has it
};

std::map<std::string, KindDevices> devices_of(const Cluster& cluster, const Pins& pins) {
  std::map<std::string, KindDevices> kinds;
  for (const Node& node : cluster.nodes) {
    for (const DeviceGroup& group : node.devices) {
      if (!pins.allow(group.kind)) continue;
      KindDevices& kind = kinds[group.kind];
      kind.all += node.count * group.count;
      if (kind.per_node == 0) kind.per_node = group.count;
    }
  }
  return kinds;
}

// How many of each kind's devices to look at, from most to least often.
enum class Counts : std::uint8_t { kEvery, kNodesDoubled, kHalf, kNoneOrAll, kAll };

std::vector<int> counts_of(const KindDevices& kind, Counts which) {
  if (which == Counts::kAll) return {kind.all};
  std::vector<int> counts = {0};
  const int nodes = kind.all / kind.per_node;
  if (which == Counts::kEvery) {
    for (int count = 1; count < kind.all; ++count) {
      counts.push_back(count);
    }
  } else if (which == Counts::kNodesDoubled) {
    for (int some = 1; some * kind.per_node < kind.all; some *= 2) {
      counts.push_back(some * kind.per_node);
    }
  } else if (which == Counts::kHalf && nodes > 1) {
    counts.push_back(nodes / 2 * kind.per_node);
  }
  counts.push_back(kind.all);
  return counts;
}

// As many of them as stay few enough over all kinds.
Counts counts_for(const std::map<std::string, KindDevices>& kinds) {
  for (const Counts which :
       {Counts::kEvery, Counts::kNodesDoubled, Counts::kHalf, Counts::kNoneOrAll}) {
    double combinations = 1;
    for (const auto& [name, kind] : kinds) {
      combinations *= static_cast<double>(counts_of(kind, which).size());
    }
    if (combinations <= (which == Counts::kEvery ? kMostOfEvery : kMostChoices)) return which;
  }
  return Counts::kAll;
}

int total_of(const std::map<std::string, int>& counts) {
  int total = 0;
  for (const auto& [kind, count] : counts) {
    total += count;
  }
  return total;
}

// Less is better.
double badness(const Choice& choice, Objective objective) {
  switch (objective) {
    case Objective::kTokensPerSecond:
      return -choice.tokens_per_second();
    case Objective::kUsdPerToken:
      return choice.usd_per_token();
    case Objective::kJoulesPerToken:
      return choice.joules_per_token();
    case Objective::kDevices:
      break;
  }
  return choice.device_count();
}

void require_known(const std::vector<Choice>& choices, Objective objective) {
  for (const Choice& choice : choices) {
    const bool prices = objective != Objective::kUsdPerToken || choice.running.usd_per_hour > 0;
    const bool watts = objective != Objective::kJoulesPerToken || choice.running.watts > 0;
    if (prices && watts) continue;
    throw Error(ErrorCode::kInvalidConfig,
                {.what = text("--objective ", name_of(objective)),
                 .found = text("a kind without ", prices ? "watts" : "usd_per_hour"),
                 .expected = "it for every kind of the cluster file",
                 .fix = "state it, or choose another objective"});
  }
}

// Whether `other` is as good in everything and better in something.
bool beats(const Choice& other, const Choice& one) {
  const std::array<double, 4> mine = {-one.tokens_per_second(), one.usd_per_token(),
                                      one.joules_per_token(),
                                      static_cast<double>(one.device_count())};
  const std::array<double, 4> its = {-other.tokens_per_second(), other.usd_per_token(),
                                     other.joules_per_token(),
                                     static_cast<double>(other.device_count())};
  bool better = false;
  for (std::size_t at = 0; at < mine.size(); ++at) {
    if (its[at] > mine[at]) return false;
    better = better || its[at] < mine[at];
  }
  return better;
}

}  // namespace

std::string_view name_of(Objective objective) {
  return kObjectives.at(static_cast<std::size_t>(objective));
}

Objective parse_objective(std::string_view name) {
  const auto found = std::find(kObjectives.begin(), kObjectives.end(), name);
  if (found != kObjectives.end()) return static_cast<Objective>(found - kObjectives.begin());
  std::string all;
  for (const std::string_view one : kObjectives) {
    all += text(all.empty() ? "" : ", ", one);
  }
  throw Error(ErrorCode::kUsage, {.what = "--objective",
                                  .found = std::string(name),
                                  .expected = "one of " + all,
                                  .fix = "correct the spelling"});
}

std::vector<std::map<std::string, int>> device_counts(const Cluster& cluster, const Pins& pins) {
  const std::map<std::string, KindDevices> kinds = devices_of(cluster, pins);
  const Counts which = counts_for(kinds);
  std::vector<std::map<std::string, int>> all = {{}};
  for (const auto& [name, kind] : kinds) {
    std::vector<std::map<std::string, int>> longer;
    for (const std::map<std::string, int>& counts : all) {
      for (const int count : counts_of(kind, which)) {
        longer.push_back(counts);
        longer.back()[name] = count;
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [](const auto& counts) { return total_of(counts) == 0; });
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return total_of(a) > total_of(b); });
  return all;
}

std::vector<Choice> choices_of(const SearchRequest& request, const Strategy& strategy,
                               bool& complete) {
  const Cluster& cluster = request.costs.cluster();
  const auto all = device_counts(cluster, request.pins);
  const double end = seconds_now() + request.time_limit_s;
  std::vector<Choice> choices;
  complete = true;
  for (std::size_t index = 0; index < all.size(); ++index) {
    const double left = end - seconds_now();
    if (left <= 0) {
      complete = false;
      break;
    }
    const CostModel costs(part_of(cluster, all[index]), request.costs.costs());
    SearchRequest part = request_on(costs, request);
    part.keep = 1;
    part.time_limit_s = left / static_cast<double>(all.size() - index);
    try {
      SearchResult result = strategy.find(part);
      if (result.best.empty()) continue;
      Choice choice{.candidate = std::move(result.best.front())};
      for (const std::string& kind : choice.candidate.plan.kind_of_rank()) {
        ++choice.devices[kind];
      }
      choice.running = running_cost_of(choice.candidate.plan, cluster);
      choices.push_back(std::move(choice));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidPlan) throw;  // pins that ask for more devices
    }
  }
  return choices;
}

const Choice* best_of(const std::vector<Choice>& choices, Objective objective,
                      double least_tokens_per_second) {
  require_known(choices, objective);
  const Choice* best = nullptr;
  for (const Choice& choice : choices) {
    if (choice.tokens_per_second() < least_tokens_per_second) continue;
    const auto rank_of = [&](const Choice& one) {
      return std::pair(badness(one, objective), -one.tokens_per_second());
    };
    if (best == nullptr || rank_of(choice) < rank_of(*best)) best = &choice;
  }
  return best;
}

std::vector<Choice> pareto_of(std::vector<Choice> choices) {
  std::vector<Choice> kept;
  for (const Choice& one : choices) {
    const auto as_good = [&](const Choice& other) { return beats(other, one); };
    const auto same = [&](const Choice& other) {
      return other.candidate.plan == one.candidate.plan;
    };
    if (std::any_of(choices.begin(), choices.end(), as_good)) continue;
    if (std::any_of(kept.begin(), kept.end(), same)) continue;
    kept.push_back(one);
  }
  std::stable_sort(kept.begin(), kept.end(), [](const Choice& a, const Choice& b) {
    return a.tokens_per_second() > b.tokens_per_second();
  });
  return kept;
}

}  // namespace hethub
