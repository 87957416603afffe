// Stages whose layers several ranks share, copies of stages, and any mix of widths: the numbers are
// those of one rank.

#include <cmath>

#include <gtest/gtest.h>

#include "hethub/base/text.h"
#include "hethub/plan/validate.h"
#include "tests/accel/multiplies.h"
#include "tests/train/wide_plans.h"

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

// Numbers that no width divides, but for the heads.
ModelConfig odd_gpt2(bool tied, int layers) {
  return parse_model(
      text(R"({"model_type":"gpt2","vocab_size":257,"n_embd":48,"n_inner":91,"n_head":4,
      "n_positions":63,"n_layer":)",
           layers, R"(,"tie_word_embeddings":)", tied ? "true}" : "false}"),
      "odd");
}

ModelConfig odd_of(const std::string& family, bool tied, int layers = 2) {
  if (family == "gpt2") return odd_gpt2(tied, layers);
  return family == "mixtral" ? odd_mixture(tied, layers) : odd_model(family, tied, layers);
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

TEST(TensorParallel, trains_the_same_at_any_mix_of_widths_and_copies) {
  const MadeSamples source(16, {16, 3, 9});
  const Plan alone = cpu_plan(16, {pipeline(12, 1, {wide(0, 1, {0, 2})})});
  for (const std::string family : {"llama", "qwen2", "qwen3", "gpt2", "mixtral"}) {
    for (const bool tied : {false, true}) {
      const ModelConfig model = odd_of(family, tied);
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
  for (const std::string family : {"qwen2", "qwen3", "gpt2", "mixtral"}) {
    const ModelConfig model = odd_of(family, family == "qwen2" || family == "gpt2");
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

// What is rounded to 8 bits on the way is rounded at other places than on one rank.
TEST(TensorParallel, bf16_is_near_f32_on_one_rank_at_any_width) {
  if (!multiplies(*open_backend("cpu", {}), DType::kBf16)) {
    GTEST_SKIP() << "no matrix products in bf16 on this processor";
  }
  const MadeSamples source(16, {16, 3, 9});
  const Plan alone = cpu_plan(16, {pipeline(12, 1, {wide(0, 1, {0, 2})})});
  const ModelConfig model = odd_model("qwen3", true);
  const auto expected = train_in_threads(options_for(alone, model), source).front().steps;
  int number = 0;
  for (Plan plan : wide_layouts()) {
    plan.dtype = "bf16";
    plan.sequence_parallel = number++ % 2 == 1;
    plan.pipelines[0].stages[0].recompute = {{Recompute::kSelective, {0, 1}}};
    SCOPED_TRACE(text("layout ", number - 1));
    for (const ThreadRank& rank : train_in_threads(options_for(plan, model), source)) {
      for (std::size_t step = 0; step < expected.size(); ++step) {
        EXPECT_NEAR(rank.steps[step].loss, expected[step].loss, 0.003 * expected[step].loss);
        EXPECT_NEAR(rank.steps[step].gradient_norm, expected[step].gradient_norm,
                    0.03 * expected[step].gradient_norm);
      }
    }
  }
}

TEST(TensorParallel, trains_the_same_under_each_schedule_and_with_recompute) {
  const MadeSamples source(16, {});
  const Plan alone = cpu_plan(16, {pipeline(8, 1, {wide(0, 1, {0, 4})})});
  for (const auto& [family, schedule] :
       std::vector<std::pair<std::string, std::string>>{{"qwen2", "gpipe"},
                                                        {"qwen2", "zero-bubble"},
                                                        {"qwen2", "interleaved"},
                                                        {"gpt2", "gpipe"},
                                                        {"gpt2", "zero-bubble"},
                                                        {"gpt2", "interleaved"},
                                                        {"mixtral", "gpipe"},
                                                        {"mixtral", "zero-bubble"},
                                                        {"mixtral", "interleaved"}}) {
    const ModelConfig model = odd_of(family, true, 4);
    const auto expected = train_in_threads(options_for(alone, model), source).front().steps;
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
      SCOPED_TRACE(text(family, " ", schedule, sequence ? ", rows split" : ""));
      expect_alike(train_in_threads(options_for(plan, model), source), expected);
    }
  }
}

TEST(ZLoss, is_in_the_gradient_alone_and_alike_at_any_width) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_model("llama", false);
  Plan plan = cpu_plan(16, {pipeline(4, 1, {wide(0, 1, {0, 2})})});
  const auto without = train_in_threads(options_for(plan, model), source).front().steps;
  plan.z_loss = 0.1;
  const auto with = train_in_threads(options_for(plan, model), source).front().steps;
  EXPECT_EQ(with[0].loss, without[0].loss);
  EXPECT_GT(std::fabs(with[0].gradient_norm / without[0].gradient_norm - 1), 1e-3);
  EXPECT_NE(with[1].loss, without[1].loss);
  plan.pipelines = {pipeline(2, 2, {wide(0, 2, {0, 1}), wide(2, 4, {1, 2})})};
  expect_alike(train_in_threads(options_for(plan, model), source), with);
}

// More ranks than experts have none for each.
TEST(TensorParallel, a_width_above_the_number_of_experts_is_refused) {
  ModelConfig model = odd_mixture(false, 2);
  model.experts = 3;
  const auto errors = validate(cpu_plan(16, {pipeline(4, 3, {wide(0, 4, {0, 2})})}), model);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].parts().expected.find("num_local_experts=3"), std::string::npos);
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
