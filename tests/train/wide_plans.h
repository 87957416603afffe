#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hethub/base/text.h"
#include "tests/train/thread_ranks.h"

namespace hethub {

/// Five experts, which no number of ranks divides but five. Weights so large that no logits of a
/// router lie close together.
inline ModelConfig odd_mixture(bool tied, int layers) {
  return parse_model(text(R"({"model_type":"mixtral","vocab_size":257,"hidden_size":48,
      "intermediate_size":23,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":12,
      "max_position_embeddings":64,"num_local_experts":5,"num_experts_per_tok":2,
      "router_aux_loss_coef":0.3,"initializer_range":0.2,"num_hidden_layers":)",
                          layers, R"(,"tie_word_embeddings":)", tied ? "true}" : "false}"),
                     "odd");
}

/// Layers [begin, end) on ranks `first` and on, `width` of them to each of `copies`.
inline Stage wide(int first, int width, LayerRange layers, int copies = 1) {
  Stage stage{.kind = "cpu", .tensor_parallel = width, .layers = {layers}};
  for (int rank = 0; rank < width * copies; ++rank) {
    stage.ranks.push_back(first + rank);
  }
  return stage;
}

inline Pipeline pipeline(int size, int count, std::vector<Stage> stages) {
  return {.micro_batch_size = size, .micro_batches = count, .stages = std::move(stages)};
}

inline TrainOptions options_for(Plan plan, ModelConfig model, std::int64_t steps = 3) {
  return {.plan = std::move(plan),
          .model = std::move(model),
          .optimizer = {.learning_rate = 1e-3, .schedule = "constant", .total_steps = steps},
          .start = {.seed = 5},
          .steps = steps,
          .timeout_s = 60};
}

/// All ranks report these steps, to rounding.
inline void expect_alike(const std::vector<ThreadRank>& ranks,
                         const std::vector<StepResult>& expected) {
  for (const ThreadRank& rank : ranks) {
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(rank.steps[step].loss, expected[step].loss, 1e-5 * expected[step].loss);
      EXPECT_NEAR(rank.steps[step].gradient_norm, expected[step].gradient_norm,
                  1e-5 * expected[step].gradient_norm);
      EXPECT_EQ(rank.steps[step].tokens, expected[step].tokens);
    }
  }
}

}  // namespace hethub
