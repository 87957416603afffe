#pragma once

#include "hethub/base/text.h"
#include "hethub/plan/plan.h"

namespace hethub {

inline ModelConfig small_model(bool tied = false, int layers = 4) {
  return parse_model(R"({"model_type":"llama","vocab_size":256,"hidden_size":64,
      "intermediate_size":176,"num_attention_heads":4,"max_position_embeddings":64,
      "num_hidden_layers":)" +
                         text(layers, R"(,"tie_word_embeddings":)", tied ? "true}" : "false}"),
                     "small");
}

inline Stage stage_on(const std::string& kind, int rank, int begin, int end) {
  return {.kind = kind, .ranks = {rank}, .layers = {{begin, end}}};
}

/// Two stages on ranks 0 and 1, and, if `replica`, the whole model on rank 2.
inline Plan small_plan(bool replica) {
  Plan plan{.model = "small", .sequence_length = 32, .global_batch = replica ? 7 : 4};
  plan.pipelines.push_back({.micro_batch_size = 1,
                            .micro_batches = 4,
                            .stages = {stage_on("cpu", 0, 0, 3), stage_on("opencl", 1, 3, 4)}});
  if (replica) {
    plan.pipelines.push_back(
        {.micro_batch_size = 3, .micro_batches = 1, .stages = {stage_on("cpu", 2, 0, 4)}});
  }
  return plan;
}

}  // namespace hethub
