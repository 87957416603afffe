#include "hethub/search/schedule_variants.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/validate.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

TEST(ScheduleVariants, virtual_stages_share_out_a_stages_layers_in_turn) {
  const ModelConfig model = example_model(10);
  const Plan base = example_plan({example_pipeline({0, 1}, {"a", "b"}, {7, 3}, 1, 4)});
  const std::optional<Plan> plan = interleaved_plan(base, 3);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(validate(*plan, model).empty());
  const std::vector<LayerRange>& first = plan->pipelines[0].stages[0].layers;
  int layers = 0;
  for (const LayerRange& range : first) {
    layers += range.size();
    EXPECT_GE(range.size(), 2);
  }
  EXPECT_EQ(layers, 7);
  EXPECT_FALSE(interleaved_plan(base, 4)) << "a stage has only three layers";
  Plan odd = base;
  odd.pipelines[0].micro_batches = 5;
  EXPECT_FALSE(interleaved_plan(odd, 3)) << "five micro-batches are no whole runs of two stages";
  Plan some = base;
  some.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, 2}}};
  EXPECT_FALSE(interleaved_plan(some, 3));
  some.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, 7}}};
  EXPECT_TRUE(validate(*interleaved_plan(some, 3), model).empty());
}

// With few micro-batches and free links the bubble is what is left to gain.
TEST(ScheduleVariants, a_faster_schedule_comes_first_and_is_what_the_predictor_says) {
  const CostModel costs(example_cluster(4, 0, {1e-9, 1e13}), {});
  SearchRequest request = request_of(costs, example_model(16), 4);
  request.pins.pipelines = 1;
  request.pins.stages = 4;
  const SearchResult before = make_strategy("exact")->find(request);
  ASSERT_FALSE(before.best.empty());
  SearchResult after = before;
  vary_schedule(after, request);
  const Candidate& best = after.best.front();
  EXPECT_NE(best.plan.schedule, before.best.front().plan.schedule);
  EXPECT_LT(best.prediction.step_seconds, 0.9 * before.best.front().prediction.step_seconds);
  EXPECT_EQ(best.prediction.step_seconds, predict(best.plan, request.model, costs).step_seconds);
  EXPECT_TRUE(validate(best.plan, request.model).empty());
  EXPECT_LE(after.bound_seconds, best.prediction.step_seconds);
  EXPECT_LE(after.best.size(), request.keep);
}

TEST(ScheduleVariants, stages_that_lack_memory_recompute_as_few_layers_as_will_do) {
  Cluster cluster = example_cluster(2, 0);
  const ModelConfig model = example_model(8);
  const Plan plan = example_plan({example_pipeline({0, 1}, {"a", "a"}, {4, 4}, 1, 8)});
  const std::vector<Segment> segments = segments_of(plan, model);
  const auto arena = [&](int layers) {
    Plan some = plan;
    if (layers > 0) some.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, layers}}};
    MemoryCheck memory(model);
    return memory.arenas_of(some, segments)[0];
  };
  for (const int layers : {0, 1, 3}) {
    cluster.kinds[0].memory_bytes = arena(layers);
    const CostModel costs(cluster, {});
    MemoryCheck memory(model);
    const std::optional<Plan> fit = fitted_plan(plan, segments, memory, costs);
    ASSERT_TRUE(fit.has_value()) << layers;
    EXPECT_TRUE(memory.faults_of(*fit, segments, costs).empty());
    int recomputed = 0;
    for (const RecomputeRange& range : fit->pipelines[0].stages[0].recompute) {
      recomputed += range.layers.size();
    }
    EXPECT_EQ(recomputed, layers);
  }
  cluster.kinds[0].memory_bytes = arena(4) / 2;
  MemoryCheck memory(model);
  EXPECT_FALSE(fitted_plan(plan, segments, memory, CostModel(cluster, {})));
}

TEST(ScheduleVariants, a_plan_without_pipelines_is_left_alone) {
  const CostModel costs(example_cluster(1, 0), {});
  const SearchRequest request = request_of(costs, example_model(4), 4);
  SearchResult result = make_strategy("exact")->find(request);
  const std::int64_t simulated = result.simulated;
  vary_schedule(result, request);
  EXPECT_EQ(result.simulated, simulated);
}

TEST(ScheduleVariants, a_pin_leaves_the_plan_with_its_schedule_alone) {
  const CostModel costs(example_cluster(4, 0), {});
  SearchRequest request = request_of(costs, example_model(16), 8);
  request.pins.pipelines = 1;
  request.pins.stages = 4;
  for (const std::string name : {"zero-bubble", "interleaved"}) {
    add_pin(request.pins, "schedule=" + name);
    SearchResult result = make_strategy("exact")->find(request);
    vary_schedule(result, request);
    ASSERT_EQ(result.best.size(), 1U) << name;
    EXPECT_EQ(result.best.front().plan.schedule, name);
  }
  EXPECT_THROW(add_pin(request.pins, "schedule=chimaera"), Error);
  add_pin(request.pins, "schedule=gpipe");
  EXPECT_TRUE(request.pins.variant.empty());
}

}  // namespace
}  // namespace hethub
