#include <nlohmann/json.hpp>

#include "hethub/base/text.h"
#include "hethub/model/config_fields.h"

namespace hethub {
namespace {

// "layer_types" decides if it is there; otherwise the layers from max_window_layers on.
bool has_window(const ConfigFields& fields, std::size_t layer, std::size_t layers) {
  if (!fields.has("layer_types")) {
    return layer >= static_cast<std::size_t>(fields.count("max_window_layers", 28));
  }
  const Json& types = fields.at("layer_types");
  if (!types.is_array() || types.size() != layers) {
    fields.refuse("layer_types", text(types.size(), " entries"), text("one for each layer"));
  }
  const std::string type = types[layer].is_string() ? types[layer].get<std::string>() : "";
  if (type != "full_attention" && type != "sliding_attention") {
    fields.refuse("layer_types", types[layer].dump(), "full_attention or sliding_attention");
  }
  return type == "sliding_attention";
}

}  // namespace

void read_qwen_windows(const ConfigFields& fields, ModelConfig& model) {
  if (!fields.flag("use_sliding_window", false)) return;
  const std::int64_t window = fields.count("sliding_window", 4096);
  for (std::size_t layer = 0; layer < model.windows.size(); ++layer) {
    if (has_window(fields, layer, model.windows.size())) model.windows[layer] = window;
  }
}

ModelConfig read_qwen2(const ConfigFields& fields) {
  ModelConfig model = read_llama_like(fields, {.vocab_size = 151936,
                                               .intermediate_size = 22016,
                                               .kv_heads = 32,
                                               .max_position_embeddings = 32768,
                                               .reads_head_dim = false});
  model.qkv_bias = true;
  read_qwen_windows(fields, model);
  return model;
}

}  // namespace hethub
