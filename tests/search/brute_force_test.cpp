#include "tests/search/brute_force.h"

#include <cmath>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/search/exact.h"
#include "hethub/search/reasons.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

// How many random cases: a few in every run, and more where this says so (it then takes minutes).
int wanted_cases() {
  const char* wanted = std::getenv("HETHUB_BRUTE_CASES");
  return wanted == nullptr ? 14 : std::atoi(wanted);
}

// What a case may leave free; what it does not is pinned.
const std::set<std::string> kDimensions = {"pipelines", "stages",    "kinds",    "layers",
                                           "size",      "recompute", "schedule", "devices"};

// One request over a cluster of its own.
class RandomCase {
 public:
  RandomCase(std::mt19937& random, int most_plans) : random_(random), costs(cluster()) {
    request.model = example_model(4 + below(9), below(2) == 0);
    request.sequence_length = 32;
    request.global_batch = 2 + below(7);
    request.micro_batch_sizes = {1, 2};
    request.keep = 3;
    request.time_limit_s = 600;
    free = kDimensions;
    const bool recomputes = below(3) == 0;  // pinned last: it multiplies the plans most
    for (const std::string& dimension : kDimensions) {
      if (below(3) == 0 && !(recomputes && dimension == "recompute")) pin(dimension);
    }
    while (plans_up_to(most_plans) > most_plans && !free.empty()) {
      const auto next = std::next(free.begin(), below(static_cast<int>(free.size())));
      if (recomputes && *next == "recompute" && free.size() > 1) continue;
      pin(*next);
    }
    fits_counting = plans_up_to(most_plans) <= most_plans;
  }

  std::set<std::string> free = {};
  bool fits_counting = false;

 private:
  std::mt19937& random_;

 public:
  const CostModel costs;
  SearchRequest request{costs};

  bool recompute() const { return free.contains("recompute"); }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  double between(double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random_));
  }

  // Two or three kinds on one or two machines, 2 to 8 devices in all; memory for about one to
  // three stages of a small model, or for anything.
  CostModel cluster() {
    const int kinds = 2 + below(2);
    const bool tight = below(2) == 0;
    Cluster made{.nodes = {{.name = "n"}, {.name = "m"}}};
    int devices = 0;
    for (int kind = 0; kind < kinds; ++kind) {
      const std::string name(1, static_cast<char>('a' + kind));
      made.kinds.push_back(
          {.name = name,
           .memory_bytes = static_cast<std::int64_t>(tight ? between(3e6, 3e7) : 1e9),
           .peak_flops_per_s = {{"f32", between(2e10, 1e12)}},
           .memory_bytes_per_s = between(5e9, 2e11)});
      if (below(2) == 0) made.kinds.back().host_copy = {between(1e-7, 1e-5), between(1e9, 1e11)};
      const int count = std::min(1 + below(3), 8 - devices - (kinds - kind - 1));
      made.nodes[static_cast<std::size_t>(below(2))].devices.push_back({name, count});
      devices += count;
    }
    std::erase_if(made.nodes, [](const Node& node) { return node.devices.empty(); });
    for (std::size_t one = 0; one < made.kinds.size(); ++one) {
      for (std::size_t other = one; other < made.kinds.size(); ++other) {
        for (const LinkScope scope : {LinkScope::kNode, LinkScope::kNetwork}) {
          made.links.push_back({made.kinds[one].name,
                                made.kinds[other].name,
                                scope,
                                below(2) == 0 ? RouteKind::kHostStaged : RouteKind::kDirect,
                                {between(1e-7, 1e-4), between(1e7, 1e11)}});
        }
      }
    }
    return {made, {}};
  }

  void pin(std::string dimension) {
    free.erase(dimension);
    Pins& pins = request.pins;
    const auto& kinds = request.costs.cluster().kinds;
    if (dimension == "pipelines") pins.pipelines = 1 + below(2);
    if (dimension == "stages") pins.stages = 1 + below(3);
    if (dimension == "size") pins.micro_batch_size = 1;
    if (dimension == "schedule") pins.schedule = below(2) == 0 ? "1f1b" : "gpipe";
    if (dimension == "recompute") pins.recompute = Recompute::kNone;
    if (dimension == "kinds")
      pins.stage_kind[0] = kinds[below(static_cast<int>(kinds.size()))].name;
    if (dimension == "layers") pins.stage_layers[0] = 1 + below(3);
    if (dimension == "devices") pins.kinds = {kinds[0].name, kinds[1].name};
  }

  int plans_up_to(int most) {
    int plans = 0;
    BruteForce all(request, [&](const Plan&) { return ++plans <= most; });
    all.recompute = recompute();
    all.run();
    return plans;
  }
};

// Of more than four pipelines the search looks at one order only; who comes after whom in their
// rings matters a little.
constexpr double kOrderOfMany = 5e-3;

TEST(BruteForce, finds_nothing_better_than_exact_and_no_bound_that_does_not_hold) {
  std::mt19937 random(17);
  const int cases = wanted_cases();
  const int most_plans = cases > 100 ? 4000 : 300;
  std::map<std::string, int> free;
  int plans = 0;
  int without = 0;
  for (int made = 0; made < cases;) {
    RandomCase one(random, most_plans);
    if (!one.fits_counting) continue;
    SearchRequest& request = one.request;
    int here = 0;
    Plan fastest;
    const double expected = brute_force(request, one.recompute(), here, &fastest);
    if (here < 2) continue;  // nothing to choose
    ++made;
    plans += here;
    for (const std::string& dimension : one.free) {
      ++free[dimension];
    }
    SearchResult result;
    try {
      result = ExactSearch(request).run();
    } catch (const Error& error) {
      ADD_FAILURE() << made << ": " << error.what();
      continue;
    }
    if (result.best.empty()) {
      ++without;
      EXPECT_TRUE(std::isinf(expected)) << made;
      continue;
    }
    const Candidate& best = result.best.front();
    const std::string plans_here =
        text("case ", made, ": ", summary_of(fastest), "\n found ", summary_of(best.plan));
    EXPECT_TRUE(result.complete) << made;
    const double tolerance = fastest.pipelines.size() > 4 ? kOrderOfMany : 1e-6;
    EXPECT_LE(best.prediction.step_seconds, expected * (1 + tolerance)) << plans_here;
    EXPECT_GE(best.prediction.step_seconds, expected * (1 - 1e-6)) << plans_here;
    EXPECT_GE(best.prediction.fullest().free_bytes(), 0) << made;
    EXPECT_LE(result.bound_seconds, expected * (1 + tolerance)) << plans_here;
    request.time_limit_s = 2e-3;  // ends anywhere
    const SearchResult stopped = ExactSearch(request).run();
    EXPECT_LE(stopped.bound_seconds, expected * (1 + tolerance)) << made;
  }
  std::printf("%d cases, %d plans, %d without one that fits; free in cases:", cases, plans,
              without);
  for (const std::string& dimension : kDimensions) {
    std::printf(" %s %d", dimension.c_str(), free[dimension]);
    EXPECT_GE(free[dimension], cases < 100 ? 0 : cases / 10) << dimension;
  }
  std::printf("\n");
}

}  // namespace
}  // namespace hethub
