#include <numeric>

#include <gtest/gtest.h>

#include "hethub/cluster/cluster_file.h"
#include "hethub/model/decoder.h"
#include "hethub/predict/predict.h"

namespace hethub {
namespace {

// Pipelines of alike stages of 8 ranks with two layers each.
Plan even_plan(int pipelines, int stages, int micro_batches) {
  Plan plan{.sequence_length = 8192,
            .global_batch = std::int64_t{pipelines} * micro_batches,
            .dtype = "bf16",
            .zero_stage = 1,
            .sequence_parallel = true};
  int rank = 0;
  for (int pipeline = 0; pipeline < pipelines; ++pipeline) {
    plan.pipelines.push_back({.micro_batch_size = 1, .micro_batches = micro_batches});
    for (int stage = 0; stage < stages; ++stage, rank += 8) {
      std::vector<int> ranks(8);
      std::iota(ranks.begin(), ranks.end(), rank);
      const LayerRange layers = {2 * stage, 2 * stage + 2};
      plan.pipelines.back().stages.push_back({.kind = "a100",
                                              .ranks = ranks,
                                              .tensor_parallel = 8,
                                              .layers = {layers},
                                              .recompute = {{Recompute::kFull, layers}}});
    }
  }
  return plan;
}

TEST(Gpt4Moe, experts_of_1800_billion_parameters_fit_25000_devices_at_a_rate_that_can_be) {
  const std::string folder = HETHUB_EXAMPLES "/gpt4_moe";
  const ModelConfig model = read_model(folder + "/config.json");
  EXPECT_NEAR(static_cast<double>(parameter_count(model)), 1.8e12, 0.05e12);
  const CostModel costs(read_cluster(folder + "/cluster.yaml"), {});
  ASSERT_EQ(costs.ranks().size(), 25000U);
  const Plan plan = even_plan(52, 60, 231);
  ASSERT_EQ(plan.world_size(), 24960);
  const Prediction prediction = predict(plan, model, costs);
  EXPECT_GT(prediction.fullest().free_bytes(), 0);
  EXPECT_GT(prediction.mfu, 0.25) << "docs/predictor.md has what the planner finds";
  EXPECT_LT(prediction.mfu, 0.6);
  // 59 of 290 slots are bubble of alike stages; those at the ends have head and embedding, too.
  EXPECT_GT(prediction.bubble_fraction, 59.0 / 290);
}

}  // namespace
}  // namespace hethub
