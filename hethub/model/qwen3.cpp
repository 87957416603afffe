#include "hethub/model/config_fields.h"

namespace hethub {

// Qwen2's layout with a head_dim of its own, a norm of each head's queries and keys, and no biases.
ModelConfig read_qwen3(const ConfigFields& fields) {
  ModelConfig model = read_llama_like(fields, {.vocab_size = 151936,
                                               .intermediate_size = 22016,
                                               .kv_heads = 32,
                                               .head_dim = 128,
                                               .max_position_embeddings = 32768});
  model.qk_norm = true;
  read_qwen_windows(fields, model);
  return model;
}

}  // namespace hethub
