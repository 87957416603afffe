#include "hethub/search/scaled.h"

#include <random>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/validate.h"
#include "hethub/search/exact.h"
#include "hethub/search/stage_memory.h"
#include "tests/predict/example_plans.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

TEST(ScaledSearch, its_bound_holds_for_the_best_plan_of_few_devices) {
  std::mt19937 random(3);
  double worst = 0;
  for (int round = 0; round < 20; ++round) {
    const CostModel costs(random_cluster(random, 1 + round % 2, 1 + round % 3 % 2), {});
    SearchRequest request = request_of(costs, example_model(4), 4 + 2 * (round % 3));
    request.pins.tensor_parallel = 1;
    const SearchResult exact = ExactSearch(request).run();
    const SearchResult scaled = ScaledSearch(request).run();
    ASSERT_FALSE(exact.best.empty());
    ASSERT_FALSE(scaled.best.empty()) << round;
    const double best = exact.best.front().prediction.step_seconds;
    const double found = scaled.best.front().prediction.step_seconds;
    EXPECT_LE(scaled.bound_seconds, best * (1 + 1e-9)) << round;
    EXPECT_GE(found, best * (1 - 1e-9)) << round;
    worst = std::max(worst, found / best);
  }
  EXPECT_LE(worst, 1.5);
}

TEST(ScaledSearch, plans_of_many_devices_are_valid_and_fit) {
  std::mt19937 random(5);
  for (const int devices : {9, 16, 40}) {
    const CostModel costs(random_cluster(random, devices, devices / 2), {});
    const SearchRequest request = request_of(costs, example_model(4), 96);
    const SearchResult result = make_strategy("exact")->find(request);
    ASSERT_FALSE(result.best.empty());
    double before = 0;
    for (const Candidate& one : result.best) {
      EXPECT_TRUE(validate(one.plan, request.model).empty());
      EXPECT_GE(one.prediction.fullest().free_bytes(), 0);
      EXPECT_GE(one.prediction.step_seconds, before);
      before = one.prediction.step_seconds;
    }
    EXPECT_LE(result.bound_seconds, result.best.front().prediction.step_seconds);
    EXPECT_GT(result.bound_seconds, 0);
  }
}

TEST(ScaledSearch, many_devices_come_near_the_bound_where_links_and_fills_cost_little) {
  for (const auto& [a, b] : {std::pair{40, 0}, {48, 48}, {64, 32}}) {
    const CostModel costs(example_cluster(a, b, {1e-9, 1e13}), {});
    const SearchRequest request = request_of(costs, example_model(4), 64 * (a + b));
    const SearchResult result = ScaledSearch(request).run();
    ASSERT_FALSE(result.best.empty());
    const double step = result.best.front().prediction.step_seconds;
    EXPECT_LE(result.bound_seconds, step) << a;
    EXPECT_GE(result.bound_seconds, 0.9 * step) << a;
  }
}

// Every stage's time and memory come from the search's own tables: what a plan's rank plans say is
// the other description.
TEST(ScaledSearch, stages_of_tensor_parallel_groups_stay_in_a_node_and_are_priced_as_predicted) {
  std::mt19937 random(7);
  int wide = 0;
  for (const int devices : {8, 16}) {
    Cluster cluster = random_cluster(random, devices, devices);
    const CostModel costs(cluster, {});
    SearchRequest request = request_of(costs, example_model(4), 32);
    add_pin(request.pins, "tensor_parallel=2");
    const SearchResult result = make_strategy("exact")->find(request);
    ASSERT_FALSE(result.best.empty());
    for (const Candidate& one : result.best) {
      EXPECT_TRUE(validate(one.plan, request.model).empty());
      const Prediction whole = predict(one.plan, request.model, costs);
      EXPECT_NEAR(one.prediction.step_seconds, whole.step_seconds, 1e-9 * whole.step_seconds);
      const std::vector<int> ranks = cluster_ranks_of(one.plan, costs.ranks());
      for (const Pipeline& pipeline : one.plan.pipelines) {
        for (const Stage& stage : pipeline.stages) {
          wide += stage.tensor_parallel == 2 ? 1 : 0;
          for (const int rank : stage.ranks) {
            EXPECT_EQ(costs.ranks()[ranks[rank]].node, costs.ranks()[ranks[stage.ranks[0]]].node);
            EXPECT_EQ(one.prediction.ranks[rank].arena_bytes, whole.ranks[rank].arena_bytes);
          }
        }
      }
    }
  }
  EXPECT_GT(wide, 0);
}

TEST(ScaledSearch, a_width_that_the_model_cannot_be_split_by_is_refused) {
  const CostModel costs(example_cluster(16, 16, {1e-6, 1e9}), {});
  SearchRequest request = request_of(costs, example_model(4), 32);
  add_pin(request.pins, "tensor_parallel=3");
  EXPECT_THROW(make_strategy("exact")->find(request), Error);
}

// Each device's share of the batch is 8 micro-batches, and the faster kind's more: however deep the
// pipelines, all stay alive.
TEST(ScaledSearch, a_schedule_that_keeps_all_micro_batches_alive_is_given_room_for_them) {
  const ModelConfig model = example_model(8);
  StageMemory memory(model, {.sequence_length = 32});
  const StageBytes whole = memory.of({0, model.layers}, 1, Recompute::kNone);
  for (const int lanes : {6, 12}) {
    Cluster cluster = example_cluster(12, 12, {1e-6, 1e9});
    for (Kind& kind : cluster.kinds) {
      kind.memory_bytes = whole.arena(1, lanes);
    }
    const CostModel costs(cluster, {});
    SearchRequest request = request_of(costs, model, 8 * 24);
    request.pins.schedule = "gpipe";
    request.pins.recompute = Recompute::kNone;
    request.pins.micro_batch_size = 1;
    const SearchResult result = ScaledSearch(request).run();
    EXPECT_EQ(result.best.empty(), lanes == 6);
    EXPECT_TRUE(lanes == 12 || result.nearest->bytes_short > 0);
    for (const Candidate& one : result.best) {
      EXPECT_EQ(one.plan.schedule, "gpipe");
      EXPECT_GE(one.prediction.fullest().free_bytes(), 0);
    }
  }
}

TEST(ScaledSearch, kinds_without_memory_are_told_with_the_bytes_short) {
  Cluster cluster = example_cluster(6, 6, {1e-6, 1e9});
  for (Kind& kind : cluster.kinds) {
    kind.memory_bytes = 1 << 16;
  }
  const CostModel costs(cluster, {});
  const SearchResult result = make_strategy("exact")->find(request_of(costs, example_model(4), 12));
  EXPECT_TRUE(result.best.empty());
  ASSERT_TRUE(result.nearest.has_value());
  EXPECT_GT(result.nearest->bytes_short, 0);
}

TEST(ScaledSearch, a_request_that_no_plan_can_meet_is_refused_with_many_devices_too) {
  const CostModel costs(example_cluster(9, 9, {1e-6, 1e9}), {});
  const SearchRequest good = request_of(costs, example_model(4), 12);
  SearchRequest empty = good;
  empty.global_batch = 0;
  SearchRequest long_sequence = good;
  long_sequence.sequence_length = good.model.max_position_embeddings + 1;
  SearchRequest no_device = good;
  no_device.pins.kinds = {"none"};
  for (const SearchRequest* request : {&empty, &long_sequence, &no_device}) {
    EXPECT_THROW(make_strategy("exact")->find(*request), Error);
  }
}

}  // namespace
}  // namespace hethub
