#include "hethub/predict/stage_account.h"

#include <gtest/gtest.h>

#include "hethub/cluster/cluster_file.h"
#include "hethub/plan/plan_file.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

double sum_of(const StageAccount& stage) {
  return stage.compute_seconds + stage.recompute_seconds + stage.tensor_seconds +
         stage.boundary_seconds + stage.gradient_seconds + stage.parameter_seconds +
         stage.norm_seconds + stage.optimizer_seconds + stage.bubble_seconds;
}

// Stages of two ranks each, the first of tensor-parallel ones that compute everything twice.
Plan wide_plan() {
  Plan plan = example_plan({example_pipeline({0, 2}, {"a", "b"}, {2, 2}, 2, 3)});
  plan.pipelines[0].stages[0].ranks = {0, 1};
  plan.pipelines[0].stages[0].tensor_parallel = 2;
  plan.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, 2}}};
  plan.pipelines[0].stages[1].ranks = {2, 3};
  return plan;
}

TEST(StageAccount, of_each_stage_add_up_to_the_step) {
  const CostModel costs(example_cluster(2, 2), {});
  const Prediction prediction = predict(wide_plan(), example_model(4), costs, {.stages = true});
  ASSERT_EQ(prediction.stages.size(), 2U);
  for (const StageAccount& stage : prediction.stages) {
    EXPECT_NEAR(sum_of(stage), prediction.step_seconds, 1e-9);
    EXPECT_GT(stage.compute_seconds, 0);
    EXPECT_GT(stage.optimizer_seconds, 0);
    EXPECT_GT(stage.flops_per_s, 0);
    EXPECT_EQ(stage.devices, 2);
  }
  EXPECT_GT(prediction.stages[0].recompute_seconds, 0);
  EXPECT_GT(prediction.stages[0].tensor_seconds, 0);
  EXPECT_EQ(prediction.stages[1].recompute_seconds, 0);
  EXPECT_EQ(prediction.stages[1].tensor_seconds, 0);
  EXPECT_GT(prediction.stages[1].gradient_seconds, 0);  // its two copies add theirs up
  EXPECT_GT(prediction.stages[1].boundary_seconds, 0);  // through the host
}

TEST(StageAccount, hardware_flops_are_the_model_s_with_what_is_computed_again) {
  const CostModel costs(example_cluster(2, 2), {});
  Plan plan = wide_plan();
  const ModelConfig model = example_model(4);
  const Prediction again = predict(plan, model, costs, {.stages = true});
  EXPECT_GT(again.hardware_flops_per_s, again.model_flops_per_s);
  // A forward pass is a third of the work, and half of the layers have it twice.
  EXPECT_LT(again.hfu(), again.mfu * (1 + 0.5 / 3));
  EXPECT_GT(again.hfu(), again.mfu * (1 + 0.3 / 3));
  plan.pipelines[0].stages[0].recompute.clear();
  const Prediction once = predict(plan, model, costs, {.stages = true});
  EXPECT_EQ(once.hardware_flops_per_s, once.model_flops_per_s);
  EXPECT_DOUBLE_EQ(once.hfu(), once.mfu);
}

TEST(StageAccount, alike_pipelines_have_one) {
  const CostModel costs(example_cluster(4, 0), {});
  const Pipeline pipeline = example_pipeline({0, 1}, {"a", "a"}, {2, 2}, 1, 3);
  Plan plan = example_plan({pipeline, pipeline});
  plan.pipelines[1].stages[0].ranks = {2};
  plan.pipelines[1].stages[1].ranks = {3};
  const Prediction prediction = predict(plan, example_model(4), costs, {.stages = true});
  ASSERT_EQ(prediction.stages.size(), 2U);
  EXPECT_EQ(prediction.stages[0].alike, 2);
}

// The bound is what `hethub plan` says of the kinds alone: docs/predictor.md.
TEST(Llama140b, the_committed_plan_fits_and_is_as_near_to_the_bound_as_the_page_says) {
  const std::string folder = HETHUB_EXAMPLES "/llama_140b";
  const ModelConfig model = read_model(folder + "/config.json");
  const Plan plan = read_plan(folder + "/plan.json");
  EXPECT_NEAR(static_cast<double>(parameter_count(model)), 140e9, 1e9);
  EXPECT_EQ(plan.world_size(), 768);
  const auto rate = [&](const std::string& cluster) {
    const CostModel costs(read_cluster(folder + cluster), {});
    const Prediction prediction = predict(plan, model, costs);
    EXPECT_GT(prediction.fullest().free_bytes(), 0);
    return prediction.tokens_per_second;
  };
  constexpr double kBound = 143796;
  const double main_case = rate("/cluster.yaml");
  EXPECT_NEAR(main_case / kBound, 0.980, 0.002);
  const double slow_link = rate("/cluster_slow_link.yaml");
  EXPECT_LT(slow_link, main_case);
  EXPECT_NEAR(slow_link / kBound, 0.976, 0.002);
}

}  // namespace
}  // namespace hethub
