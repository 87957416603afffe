// Stages whose layers several ranks share, copies of stages, and any mix of widths: the numbers are
// those of one rank.

#include <cmath>

#include <gtest/gtest.h>

#include "hethub/base/text.h"
#include "hethub/plan/validate.h"
#include "tests/train/thread_ranks.h"

namespace hethub {
namespace {

// Four heads on two key heads; neither the vocabulary nor the MLP is a multiple of two.
ModelConfig odd_model(const std::string& family, bool tied, int layers = 2) {
  return parse_model(text(R"({"model_type":")", family, R"(","vocab_size":257,"hidden_size":48,
      "intermediate_size":91,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":)",
                          family == "qwen3" ? 20 : 12, R"(,"max_position_embeddings":64,
      "num_hidden_layers":)",
                          layers, R"(,"tie_word_embeddings":)", tied ? "true}" : "false}"),
                     "odd");
}

// Layers [begin, end) on ranks `first` and on, `width` of them to each of `copies`.
Stage wide(int first, int width, LayerRange layers, int copies = 1) {
  Stage stage{.kind = "cpu", .tensor_parallel = width, .layers = {layers}};
  for (int rank = 0; rank < width * copies; ++rank) {
    stage.ranks.push_back(first + rank);
  }
  return stage;
}

Pipeline pipeline(int size, int count, std::vector<Stage> stages) {
  return {.micro_batch_size = size, .micro_batches = count, .stages = std::move(stages)};
}

TrainOptions options_for(Plan plan, ModelConfig model, std::int64_t steps = 3) {
  return {.plan = std::move(plan),
          .model = std::move(model),
          .optimizer = {.learning_rate = 1e-3, .schedule = "constant", .total_steps = steps},
          .start = {.seed = 5},
          .steps = steps,
          .timeout_s = 60};
}

// Twelve sequences in all.
std::vector<Plan> wide_layouts() {
  const LayerRange all = {0, 2};
  const LayerRange first = {0, 1};
  const LayerRange last = {1, 2};
  return {cpu_plan(16, {pipeline(4, 3, {wide(0, 2, all)})}),
          cpu_plan(16, {pipeline(4, 3, {wide(0, 4, all)})}),
          cpu_plan(16, {pipeline(4, 3, {wide(0, 2, first), wide(2, 1, last)})}),
          cpu_plan(16, {pipeline(4, 3, {wide(0, 1, first), wide(1, 2, last)})}),
          cpu_plan(16, {pipeline(4, 3, {wide(0, 4, first), wide(4, 2, last)})}),
          cpu_plan(16, {pipeline(3, 2, {wide(0, 2, all)}), pipeline(2, 3, {wide(2, 1, all)})}),
          cpu_plan(16, {pipeline(3, 2, {wide(0, 4, all)}),
                        pipeline(1, 6, {wide(4, 2, first), wide(6, 1, last)})}),
          cpu_plan(16, {pipeline(3, 4, {wide(0, 1, all, 2)})}),
          cpu_plan(16, {pipeline(3, 4, {wide(0, 2, first, 2), wide(4, 1, last, 3)})})};
}

void expect_alike(const std::vector<ThreadRank>& ranks, const std::vector<StepResult>& expected) {
  for (const ThreadRank& rank : ranks) {
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(rank.steps[step].loss, expected[step].loss, 1e-5 * expected[step].loss);
      EXPECT_NEAR(rank.steps[step].gradient_norm, expected[step].gradient_norm,
                  1e-5 * expected[step].gradient_norm);
      EXPECT_EQ(rank.steps[step].tokens, expected[step].tokens);
    }
  }
}

TEST(TensorParallel, trains_the_same_at_any_mix_of_widths_and_copies) {
  const MadeSamples source(16, {16, 3, 9});
  const Plan alone = cpu_plan(16, {pipeline(12, 1, {wide(0, 1, {0, 2})})});
  for (const std::string family : {"llama", "qwen2", "qwen3"}) {
    for (const bool tied : {false, true}) {
      const ModelConfig model = odd_model(family, tied);
      const auto expected = train_in_threads(options_for(alone, model), source).front().steps;
      int number = 0;
      for (const Plan& plan : wide_layouts()) {
        SCOPED_TRACE(text(family, tied ? " tied" : "", ", layout ", number++));
        expect_alike(train_in_threads(options_for(plan, model), source), expected);
      }
    }
  }
}

TEST(SequenceParallel, trains_the_same_at_any_mix_of_widths_and_copies) {
  const MadeSamples source(16, {16, 3, 9});
  const Plan alone = cpu_plan(16, {pipeline(12, 1, {wide(0, 1, {0, 2})})});
  for (const std::string family : {"qwen2", "qwen3"}) {
    const ModelConfig model = odd_model(family, family == "qwen2");
    const auto expected = train_in_threads(options_for(alone, model), source).front().steps;
    int number = 0;
    for (Plan plan : wide_layouts()) {
      SCOPED_TRACE(text(family, ", layout ", number++));
      plan.sequence_parallel = true;
      plan.overlap = number % 2 == 0;
      expect_alike(train_in_threads(options_for(plan, model), source), expected);
    }
  }
}

TEST(SequenceParallel, keeps_less_and_is_refused_where_rows_do_not_split_evenly) {
  const ModelConfig model = odd_model("llama", false);
  Plan plan = cpu_plan(16, {pipeline(4, 3, {wide(0, 4, {0, 2})})});
  const auto segments = segments_of(plan, model);
  const std::int64_t whole = make_rank_plan(plan, model, segments, 0).memory.arena_bytes;
  plan.sequence_parallel = true;
  EXPECT_LT(make_rank_plan(plan, model, segments, 0).memory.arena_bytes, whole);
  plan.sequence_length = 18;
  const auto errors = validate(plan, model);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].parts().expected, "a divisor of sequence_length=18");
}

TEST(TensorParallel, trains_the_same_under_each_schedule_and_with_recompute) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_model("qwen2", true, 4);
  const Plan alone = cpu_plan(16, {pipeline(8, 1, {wide(0, 1, {0, 4})})});
  const auto expected = train_in_threads(options_for(alone, model), source).front().steps;
  for (const std::string schedule : {"gpipe", "zero-bubble", "interleaved"}) {
    Plan plan = cpu_plan(16, {pipeline(2, 4, {wide(0, 2, {0, 2}), wide(2, 1, {2, 4}, 2)})});
    plan.schedule = schedule;
    std::vector<Stage>& stages = plan.pipelines[0].stages;
    if (schedule == "interleaved") {
      stages[0].layers = {{0, 1}, {2, 3}};
      stages[1].layers = {{1, 2}, {3, 4}};
    }
    stages[0].recompute = {{Recompute::kFull, stages[0].layers[0]}};
    stages[1].recompute = {{Recompute::kSelective, stages[1].layers[0]}};
    for (const bool sequence : {false, true}) {
      plan.sequence_parallel = sequence;
      SCOPED_TRACE(text(schedule, sequence ? ", rows split" : ""));
      expect_alike(train_in_threads(options_for(plan, model), source), expected);
    }
  }
}

// What the ranks of a group all hold lies first in the memory of each.
TEST(TensorParallel, what_is_not_split_stays_bit_equal_in_the_group_and_runs_repeat) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_model("qwen3", false);
  const Plan plan = cpu_plan(16, {pipeline(2, 2, {wide(0, 4, {0, 2})})});
  const auto ranks = train_in_threads(options_for(plan, model, 5), source);
  std::size_t whole = 0;
  for (const TensorShard& shard :
       shards_of(model, {0, 2, true, true}, {4, 0, TensorLayout::kSplit})) {
    if (shard.tensor.split == TensorSplit::kNone) {
      whole += static_cast<std::size_t>(padded_elements(shard.count));
    }
  }
  ASSERT_GT(whole, 0U);
  for (const ThreadRank& rank : ranks) {
    EXPECT_TRUE(std::equal(rank.parameters.begin(), rank.parameters.begin() + whole,
                           ranks[0].parameters.begin()));
  }
  const auto again = train_in_threads(options_for(plan, model, 5), source);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(again[rank].parameters, ranks[rank].parameters);
  }
}

}  // namespace
}  // namespace hethub
