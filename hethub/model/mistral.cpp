#include "hethub/model/config_fields.h"

namespace hethub {

ModelConfig read_mistral(const ConfigFields& fields) {
  ModelConfig model = read_llama_like(
      fields, {.intermediate_size = 14336, .kv_heads = 8, .max_position_embeddings = 4096 * 32});
  // Absent means 4096, null means that every token sees all before it.
  if (!fields.is_null("sliding_window")) {
    model.windows.assign(model.windows.size(), fields.count("sliding_window", 4096));
  }
  return model;
}

}  // namespace hethub
