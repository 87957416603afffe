// ZeRO 2: ranks that hold a matrix together sum its gradient after each micro-batch and keep their
// own part of it. The numbers are those of one rank.

#include <limits>

#include <gtest/gtest.h>

#include "hethub/plan/validate.h"
#include "tests/train/wide_plans.h"

namespace hethub {
namespace {

Plan sharded(std::vector<Pipeline> pipelines) {
  Plan plan = cpu_plan(16, std::move(pipelines));
  plan.zero_stage = 2;
  return plan;
}

Pipeline widely(int first, int width, int size, int count, int copies = 1) {
  return pipeline(size, count, {wide(first, width, {0, 2}, copies)});
}

Pipeline in_stages(int first, int width, int size, int count) {
  return pipeline(size, count, {wide(first, width, {0, 1}), wide(first + width, width, {1, 2})});
}

// Twelve sequences in all.
std::vector<Plan> layouts() {
  std::vector<Plan> all = {sharded({widely(0, 1, 2, 3), widely(1, 1, 2, 3)}),
                           sharded({widely(0, 1, 3, 2), widely(1, 1, 2, 2), widely(2, 1, 1, 2)}),
                           sharded({widely(0, 1, 4, 3, 3)}),
                           sharded({widely(0, 2, 2, 3), widely(2, 2, 2, 3)}),
                           sharded({widely(0, 4, 3, 4, 2)}),
                           sharded({in_stages(0, 1, 2, 3), in_stages(2, 1, 2, 3)}),
                           sharded({in_stages(0, 2, 2, 3), in_stages(4, 2, 2, 3)})};
  all[0].overlap = true;
  all[3].sequence_parallel = true;
  return all;
}

std::vector<StepResult> alone(const ModelConfig& model, const SampleSource& source) {
  return train_in_threads(options_for(cpu_plan(16, {widely(0, 1, 12, 1)}), model), source)
      .front()
      .steps;
}

class AnySharded : public testing::TestWithParam<bool> {};

TEST_P(AnySharded, train_the_same_at_any_mix_of_widths_and_copies) {
  const MadeSamples source(16, {16, 3, 9});
  const bool tied = GetParam();
  const ModelConfig mixture = odd_mixture(tied, 2);
  const ModelConfig dense = parse_model(
      text(R"({"model_type":"qwen2","vocab_size":257,"hidden_size":48,"intermediate_size":91,
          "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,
          "num_hidden_layers":2,"tie_word_embeddings":)",
           tied ? "true}" : "false}"),
      "dense");
  for (const ModelConfig& model : {mixture, dense}) {
    const auto expected = alone(model, source);
    int number = 0;
    for (const Plan& plan : layouts()) {
      SCOPED_TRACE(text(model.family, tied ? " tied" : "", ", layout ", number++));
      ASSERT_NO_THROW(require_valid(plan, model));
      const auto ranks = train_in_threads(options_for(plan, model), source);
      expect_alike(ranks, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AnySharded, testing::Bool(),
                         [](const auto& info) { return info.param ? "tied" : "untied"; });

TEST(ShardedGradients, train_the_same_under_each_schedule_with_recompute_and_shared_experts) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_mixture(false, 4);
  const Plan one = cpu_plan(16, {pipeline(12, 1, {wide(0, 1, {0, 4})})});
  const auto expected = train_in_threads(options_for(one, model), source).front().steps;
  for (const std::string schedule : {"gpipe", "zero-bubble", "interleaved"}) {
    SCOPED_TRACE(schedule);
    std::vector<Pipeline> pipelines;
    for (const int first : {0, 3}) {
      pipelines.push_back(pipeline(3, 2, {wide(first, 1, {0, 2}, 2), wide(first + 2, 1, {2, 4})}));
      std::vector<Stage>& stages = pipelines.back().stages;
      stages[0].expert_parallel = 2;
      if (schedule == "interleaved") {
        stages[0].layers = {{0, 1}, {2, 3}};
        stages[1].layers = {{1, 2}, {3, 4}};
      }
      stages[0].recompute = {
          {first == 0 ? Recompute::kFull : Recompute::kSelective, stages[0].layers[0]}};
    }
    Plan plan = sharded(std::move(pipelines));
    plan.schedule = schedule;
    expect_alike(train_in_threads(options_for(plan, model), source), expected);
  }
}

TEST(ShardedGradients, a_rank_keeps_its_part_of_each_matrix_alone) {
  const ModelConfig model = odd_mixture(false, 2);
  Plan plan =
      sharded({widely(0, 1, 3, 2), widely(1, 1, 3, 2), widely(2, 1, 3, 2), widely(3, 1, 3, 2)});
  const auto bytes = [&](int rank) {
    const RankPlan made = make_rank_plan(plan, model, segments_of(plan, model), rank);
    return std::pair(made.gradients.bytes, made.memory.arena_bytes);
  };
  const auto [kept, arena] = bytes(1);
  plan.zero_stage = 1;
  const auto [all, larger] = bytes(1);
  EXPECT_NEAR(static_cast<double>(kept), 0.25 * static_cast<double>(all),
              0.02 * static_cast<double>(all));
  EXPECT_LT(arena, larger);
}

TEST(ShardedGradients, runs_repeat_and_a_nan_skips_the_step_on_all_ranks) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_mixture(false, 2);
  TrainOptions options = options_for(layouts()[1], model, 4);
  const auto ranks = train_in_threads(options, source);
  const auto again = train_in_threads(options, source);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(again[rank].parameters, ranks[rank].parameters);
    EXPECT_EQ(ranks[rank].parameters, ranks[0].parameters);
  }
  options.inject = {.nan_rank = 1, .nan_step = 2, .nan_last = 2};
  for (const ThreadRank& rank : train_in_threads(options, source)) {
    EXPECT_FALSE(rank.steps[0].skipped);
    EXPECT_TRUE(rank.steps[1].skipped);
    EXPECT_NE(rank.steps[1].reason.find("rank=1 param=model."), std::string::npos)
        << rank.steps[1].reason;
    EXPECT_FALSE(rank.steps[2].skipped);
  }
}

TEST(ShardedGradients, pipelines_that_do_not_come_to_each_sum_together_are_refused) {
  const ModelConfig model = odd_mixture(false, 2);
  for (const Plan& plan : {sharded({widely(0, 1, 2, 3), widely(1, 1, 3, 2)}),
                           sharded({widely(0, 1, 2, 3), in_stages(1, 1, 2, 3)}),
                           sharded({widely(0, 1, 2, 3), widely(1, 2, 2, 3)})}) {
    const auto errors = validate(plan, model);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].parts().what, "plan: zero_stage");
  }
}

}  // namespace
}  // namespace hethub
