// ZeRO 2 as it is predicted: gradients take less memory, and each micro-batch's sums take time.

#include <gtest/gtest.h>

#include "hethub/predict/predict.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

Prediction predicted(int zero_stage, int micro_batches) {
  std::vector<Pipeline> pipelines;
  for (int rank = 0; rank < 4; ++rank) {
    pipelines.push_back(example_pipeline({rank}, {"a"}, {4}, 1, micro_batches));
  }
  Plan plan = example_plan(std::move(pipelines));
  plan.zero_stage = zero_stage;
  return predict(plan, example_model(4), CostModel(example_cluster(4, 0, {1e-4, 1e8}), {}),
                 {.stages = true});
}

TEST(Scattered, gradients_take_less_memory_and_each_micro_batch_is_summed) {
  const Prediction whole = predicted(1, 2);
  const Prediction two = predicted(2, 2);
  const Prediction four = predicted(2, 4);
  EXPECT_LT(two.ranks[0].arena_bytes, whole.ranks[0].arena_bytes);
  EXPECT_EQ(whole.stages.at(0).tensor_seconds, 0);
  EXPECT_GT(two.stages.at(0).tensor_seconds, 0);
  EXPECT_NEAR(four.stages.at(0).tensor_seconds, 2 * two.stages.at(0).tensor_seconds,
              1e-6 * four.stages.at(0).tensor_seconds);
  EXPECT_LT(two.stages.at(0).gradient_seconds, whole.stages.at(0).gradient_seconds);
  EXPECT_GT(two.step_seconds, whole.step_seconds);
}

TEST(Scattered, memory_is_the_arena_that_each_rank_will_allocate) {
  Plan plan = example_plan({example_pipeline({0, 1}, {"a", "b"}, {2, 2}, 1, 3),
                            example_pipeline({2, 3}, {"b", "a"}, {2, 2}, 2, 3)});
  plan.zero_stage = 2;
  const ModelConfig model = example_model(4, true);
  const Prediction prediction = predict(plan, model, CostModel(example_cluster(2, 2), {}));
  const std::vector<Segment> segments = segments_of(plan, model);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(prediction.ranks[rank].arena_bytes,
              make_rank_plan(plan, model, segments, rank).memory.arena_bytes);
  }
}

}  // namespace
}  // namespace hethub
