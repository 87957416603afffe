#pragma once

#include <string>
#include <vector>

#include "hethub/base/text.h"
#include "hethub/cost/cost_model.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// A model of `layers` small layers.
inline ModelConfig example_model(int layers, bool tied = false) {
  return parse_model(
      text(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,)",
           R"( "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": )", layers,
           R"(, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": )",
           tied ? "true" : "false",
           R"(, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "hidden_act": "silu"})"),
      "config.json");
}

/// Kinds "a" (fast) and "b" (half as fast) from made-up data sheets, so many of each on one
/// machine, joined by host-staged links of that rate.
inline Cluster example_cluster(int a, int b, LinkRate link = {1e-6, 1e10}) {
  Cluster cluster{.kinds = {{.name = "a",
                             .memory_bytes = std::int64_t{1} << 30,
                             .peak_flops_per_s = {{"f32", 2e11}},
                             .memory_bytes_per_s = 4e10},
                            {.name = "b",
                             .memory_bytes = std::int64_t{1} << 30,
                             .peak_flops_per_s = {{"f32", 1e11}},
                             .memory_bytes_per_s = 2e10,
                             .host_copy = {1e-6, 2e10}}},
                  .nodes = {{.name = "n"}}};
  if (a > 0) cluster.nodes[0].devices.push_back({"a", a});
  if (b > 0) cluster.nodes[0].devices.push_back({"b", b});
  for (const auto& [first, second] : {std::pair{"a", "a"}, {"a", "b"}, {"b", "b"}}) {
    cluster.links.push_back({first, second, LinkScope::kNode, RouteKind::kHostStaged, link});
  }
  return cluster;
}

/// `ranks` devices of one kind whose additions cost nothing worth naming.
inline CostModel homogeneous(int ranks, LinkRate rate) {
  return {{.kinds = {{.name = "k",
                      .memory_bytes = 1 << 20,
                      .peak_flops_per_s = {{"f32", 1e18}},
                      .memory_bytes_per_s = 1e24}},
           .nodes = {{.name = "n", .devices = {{"k", ranks}}}},
           .links = {{"k", "k", LinkScope::kNode, RouteKind::kDirect, rate}}},
          {}};
}

/// A pipeline over `ranks` (of those kinds) with these numbers of layers.
inline Pipeline example_pipeline(const std::vector<int>& ranks,
                                 const std::vector<std::string>& kinds,
                                 const std::vector<int>& layers, int micro_batch_size,
                                 int micro_batches) {
  Pipeline pipeline{.micro_batch_size = micro_batch_size, .micro_batches = micro_batches};
  int begin = 0;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    pipeline.stages.push_back({.kind = kinds[stage],
                               .ranks = {ranks[stage]},
                               .layers = {{begin, begin + layers[stage]}}});
    begin += layers[stage];
  }
  return pipeline;
}

/// A plan of these pipelines.
inline Plan example_plan(std::vector<Pipeline> pipelines, std::string schedule = "1f1b") {
  Plan plan{.sequence_length = 32, .schedule = std::move(schedule)};
  for (const Pipeline& pipeline : pipelines) {
    plan.global_batch += pipeline.sequences();
  }
  plan.pipelines = std::move(pipelines);
  return plan;
}

}  // namespace hethub
