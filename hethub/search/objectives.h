#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/predict/running_cost.h"
#include "hethub/search/strategy.h"

namespace hethub {

/// What the best plan has most or least of.
enum class Objective : std::uint8_t {
  kTokensPerSecond,  ///< most tokens a second: all devices may work
  kUsdPerToken,      ///< least money for a token
  kJoulesPerToken,   ///< least energy for a token
  kDevices,          ///< fewest devices that are fast enough
};

/// The objective as options spell it: "tokens_per_second", "usd_per_token", "joules_per_token" or
/// "devices".
std::string_view name_of(Objective objective);

/// Throws kUsage, listing the names there are, for another.
Objective parse_objective(std::string_view name);

/// The best plan on the first so many devices of each kind, by throughput, and what it takes to
/// run. Devices that the plan leaves out are given back: they cost nothing.
struct Choice {
  Candidate candidate = {};
  std::map<std::string, int> devices = {};  ///< that the plan uses, by kind
  RunningCost running = {};

  int device_count() const { return candidate.plan.world_size(); }
  double tokens_per_second() const { return candidate.prediction.tokens_per_second; }
  double joules_per_token() const { return running.watts / tokens_per_second(); }
  double usd_per_token() const { return running.usd(1) / tokens_per_second(); }
};

/// Device counts by kind to look at: every combination where there are at most 64 of them, else
/// powers of two of a kind's nodes, and all of it.
std::vector<std::map<std::string, int>> device_counts(const Cluster& cluster, const Pins& pins);

/// The best plan for each of device_counts that fits, most devices first. All searches together
/// keep the request's time limit; when it is over, what is left is not looked at and `complete`
/// becomes false.
std::vector<Choice> choices_of(const SearchRequest& request, const Strategy& strategy,
                               bool& complete);

/// The best of the choices that reach `least_tokens_per_second`, or nullptr if none does. Throws
/// kInvalidConfig if the objective asks for watts or prices that the cluster does not state.
const Choice* best_of(const std::vector<Choice>& choices, Objective objective,
                      double least_tokens_per_second);

/// Those that no other beats in tokens a second without taking more money, energy or devices for
/// it; fastest first. Money and energy are looked at where the cluster states prices and watts.
std::vector<Choice> pareto_of(std::vector<Choice> choices);

}  // namespace hethub
