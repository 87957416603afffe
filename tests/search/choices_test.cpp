#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/search/changes.h"
#include "hethub/search/objectives.h"
#include "hethub/search/reasons.h"
#include "tests/predict/example_plans.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

// Two nodes of two "a" and one of two "b": "a" is twice as fast and costs five times as much.
Cluster priced_cluster() {
  Cluster cluster = example_cluster(2, 0);
  cluster.nodes[0].count = 2;
  cluster.nodes.push_back({.name = "m", .devices = {{"b", 2}}});
  const std::vector<Link> inside = cluster.links;
  for (Link link : inside) {
    link.scope = LinkScope::kNetwork;
    cluster.links.push_back(link);
  }
  cluster.kinds[0].usd_per_hour = 5;
  cluster.kinds[0].watts = 300;
  cluster.kinds[1].usd_per_hour = 1;
  cluster.kinds[1].watts = 250;
  return cluster;
}

TEST(Changes, each_is_what_its_name_says) {
  const CostModel costs(priced_cluster(), {});
  std::vector<std::string> names;
  for (const ClusterChange& change : changes_of(costs)) {
    names.push_back(change.what);
    const CostModel changed(change.cluster, change.costs);
    const bool more = change.what.starts_with("one more node");
    EXPECT_EQ(changed.ranks().size(), costs.ranks().size() + (more ? 2 : 0)) << change.what;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"one more node like n (2 a)",
                                             "one more node like m (2 b)", "links twice as fast",
                                             "twice the memory of a", "twice the memory of b"}));
}

TEST(Changes, none_makes_the_best_plan_slower) {
  Cluster cluster = priced_cluster();
  cluster.nodes[0].count = 1;
  const CostModel costs(cluster, {});
  SearchRequest request = request_of(costs, example_model(3), 6);
  request.schedules = {"1f1b"};
  request.micro_batch_sizes = {1};
  const auto strategy = make_strategy("exact");
  const Candidate winner = strategy->find(request).best.front();
  const auto effects = effects_of_changes(request, *strategy, winner.plan);
  ASSERT_EQ(effects.size(), 5U);
  for (const ChangeEffect& effect : effects) {
    EXPECT_EQ(effect.not_known, "");
    EXPECT_GE(effect.tokens_per_second, winner.prediction.tokens_per_second * (1 - 1e-9))
        << effect.what;
  }
  EXPECT_GT(effects[0].tokens_per_second, winner.prediction.tokens_per_second * 1.05);
}

TEST(Changes, a_link_that_is_not_stated_is_named) {
  const CostModel costs(example_cluster(2, 1), {});  // states no links between nodes
  const SearchRequest request = request_of(costs, example_model(4), 8);
  const auto strategy = make_strategy("exact");
  const Plan winner = strategy->find(request).best.front().plan;
  const auto effects = effects_of_changes(request, *strategy, winner);
  EXPECT_NE(effects.front().not_known.find("scope network"), std::string::npos);
  EXPECT_EQ(effects.back().not_known, "");
}

TEST(Changes, memory_that_lacks_is_found) {
  Cluster cluster = example_cluster(1, 0);
  const auto strategy = make_strategy("exact");
  cluster.kinds[0].memory_bytes = 1 << 20;
  const CostModel tiny(cluster, {});
  EXPECT_EQ(change_that_fits(request_of(tiny, example_model(4), 8), *strategy), "");
  const CostModel roomy(example_cluster(1, 0), {});
  const SearchRequest request = request_of(roomy, example_model(4), 8);
  const Candidate fits = strategy->find(request).best.front();
  cluster.kinds[0].memory_bytes = fits.prediction.ranks.front().arena_bytes / 4 * 3;
  const CostModel tight(cluster, {});
  SearchRequest pinned = request_of(tight, example_model(4), 8);
  pinned.pins.recompute = Recompute::kNone;
  pinned.pins.micro_batch_size = fits.plan.pipelines.front().micro_batch_size;
  ASSERT_TRUE(strategy->find(pinned).best.empty());
  EXPECT_NE(change_that_fits(pinned, *strategy), "");
}

TEST(Objectives, every_combination_of_few_devices_is_looked_at) {
  const auto counts = device_counts(priced_cluster(), {});
  EXPECT_EQ(counts.size(), 5U * 3U - 1U);
  EXPECT_EQ(counts.front(), (std::map<std::string, int>{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(device_counts(priced_cluster(), {.kinds = {"b"}}).size(), 2U);
  Cluster large = priced_cluster();
  large.nodes[0].count = 16;
  large.nodes[1].count = 8;
  EXPECT_EQ(device_counts(large, {}).size(), 6U * 5U - 1U);  // 0, 1, 2, 4, ... nodes
  for (const auto& [kinds, expected] : {std::pair{4, 81U - 1U}, {8, 256U - 1U}, {12, 1U}}) {
    Cluster wide;
    for (int kind = 0; kind < kinds; ++kind) {
      const std::string name = text("kind", kind);
      wide.kinds.push_back({.name = name});
      wide.nodes.push_back({.name = name, .count = 64, .devices = {{name, 8}}});
    }
    EXPECT_EQ(device_counts(wide, {}).size(), expected) << kinds;
  }
}

TEST(Objectives, the_cheapest_is_not_the_fastest) {
  const CostModel costs(priced_cluster(), {});
  const SearchRequest request = request_of(costs, example_model(4), 8);
  bool complete = false;
  const auto choices = choices_of(request, *make_strategy("exact"), complete);
  EXPECT_TRUE(complete);
  const Choice* fastest = best_of(choices, Objective::kTokensPerSecond, 0);
  const Choice* cheapest = best_of(choices, Objective::kUsdPerToken, 0);
  const Choice* fewest = best_of(choices, Objective::kDevices, 0);
  ASSERT_NE(fastest, nullptr);
  EXPECT_GT(fastest->devices.at("a"), 0);
  EXPECT_EQ(cheapest->devices.count("a"), 0U);
  EXPECT_LT(cheapest->usd_per_token(), fastest->usd_per_token());
  EXPECT_EQ(fewest->device_count(), 1);
  const Choice* in_time = best_of(choices, Objective::kDevices, fewest->tokens_per_second() * 1.01);
  EXPECT_EQ(in_time->device_count(), 2);
  EXPECT_EQ(best_of(choices, Objective::kDevices, 1e18), nullptr);
}

TEST(Objectives, nothing_on_the_pareto_list_is_beaten) {
  const CostModel costs(priced_cluster(), {});
  bool complete = false;
  const auto all =
      choices_of(request_of(costs, example_model(4), 8), *make_strategy("exact"), complete);
  const auto list = pareto_of(all);
  ASSERT_GE(list.size(), 3U);
  for (std::size_t at = 1; at < list.size(); ++at) {
    EXPECT_LT(list[at].tokens_per_second(), list[at - 1].tokens_per_second());
    bool better = false;
    for (std::size_t other = 0; other < at; ++other) {
      better = list[at].usd_per_token() < list[other].usd_per_token() ||
               list[at].joules_per_token() < list[other].joules_per_token() ||
               list[at].device_count() < list[other].device_count();
      EXPECT_TRUE(better);
    }
  }
}

TEST(Objectives, prices_that_are_not_stated_are_asked_for) {
  const CostModel costs(example_cluster(1, 1), {});
  bool complete = false;
  const auto choices =
      choices_of(request_of(costs, example_model(4), 8), *make_strategy("exact"), complete);
  EXPECT_THROW(best_of(choices, Objective::kUsdPerToken, 0), Error);
  EXPECT_THROW(parse_objective("speed"), Error);
}

TEST(Reasons, a_faster_plan_of_fewer_kinds_is_taken) {
  const CostModel costs(example_cluster(1, 1), {});
  const SearchRequest request = request_of(costs, example_model(4), 8);
  const auto strategy = make_strategy("exact");
  const auto without = without_each_kind(request, *strategy);  // "a" alone beats "b" alone
  SearchRequest slow = request;
  slow.pins.kinds = {"b"};
  SearchResult result = strategy->find(slow);
  const double before = result.best.front().prediction.tokens_per_second;
  take_faster(result, without, request);
  EXPECT_EQ(result.best.front().plan.kind_of_rank(), std::vector<std::string>{"a"});
  EXPECT_GT(result.best.front().prediction.tokens_per_second, before);
  EXPECT_EQ(result.best.size(), request.keep);
}

TEST(Reasons, devices_left_out_are_told_with_the_best_plan_that_has_them) {
  const CostModel costs(example_cluster(2, 3), {});
  const SearchRequest request = request_of(costs, example_model(4), 4);
  const auto candidate = [](std::vector<Pipeline> pipelines, double seconds) {
    return Candidate{.plan = example_plan(std::move(pipelines)),
                     .prediction = {.step_seconds = seconds}};
  };
  SearchResult result;
  result.best.push_back(candidate({example_pipeline({0, 1}, {"a", "a"}, {2, 2}, 1, 4)}, 1));
  result.best.push_back(candidate({example_pipeline({0, 1}, {"a", "b"}, {2, 2}, 1, 4)}, 2));
  const std::vector<LeftOut> left = left_out_of(result, request);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].kind, "b");
  EXPECT_EQ(left[0].devices, 3);
  EXPECT_EQ(left[0].available, 3);
  EXPECT_EQ(left[0].step_seconds_with, 2);
  result.best.pop_back();
  EXPECT_EQ(left_out_of(result, request)[0].step_seconds_with, 0);
}

}  // namespace
}  // namespace hethub
