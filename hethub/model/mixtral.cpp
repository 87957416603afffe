#include "hethub/model/config_fields.h"

namespace hethub {

// Mistral's layout with experts in place of each layer's MLP.
ModelConfig read_mixtral(const ConfigFields& fields) {
  ModelConfig model = read_llama_like(fields, {.intermediate_size = 14336,
                                               .kv_heads = 8,
                                               .max_position_embeddings = 4096 * 32,
                                               .rms_norm_eps = 1e-5,
                                               .rope_theta = 1e6,
                                               .experts = true});
  if (fields.has("sliding_window")) {
    model.windows.assign(model.windows.size(), fields.count("sliding_window", 4096));
  }
  model.experts = fields.count("num_local_experts", 8);
  if (model.experts > 65536) {
    fields.refuse("num_local_experts", std::to_string(model.experts), "at most 65536");
  }
  model.experts_per_token = fields.count("num_experts_per_tok", 2);
  if (model.experts_per_token > model.experts) {
    fields.refuse("num_experts_per_tok", std::to_string(model.experts_per_token),
                  "at most num_local_experts=" + std::to_string(model.experts));
  }
  model.balance = fields.real("router_aux_loss_coef", 0.001);
  if (!(model.balance >= 0)) {
    fields.refuse("router_aux_loss_coef", std::to_string(model.balance), "0 or more");
  }
  fields.only("router_jitter_noise", 0.0);
  return model;
}

}  // namespace hethub
