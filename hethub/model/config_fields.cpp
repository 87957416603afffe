#include "hethub/model/config_fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/model/rope.h"

namespace hethub {
namespace {

// A field that changes the mathematics, and the value with which it does not, as JSON; "null" if
// there is none.
struct Feature {
  std::string_view field;
  const char* neutral;
};

constexpr std::array kFeatures = std::to_array<Feature>({
    {"quantization_config", "null"},
    {"auto_map", "null"},
    // mixtures of experts
    {"num_local_experts", "0"},
    {"num_experts", "0"},
    {"n_routed_experts", "0"},
    {"n_shared_experts", "0"},
    {"moe_num_experts", "0"},
    // other attention
    {"use_mrope", "false"},
    {"dual_chunk_attention_config", "null"},
    {"attention_chunk_size", "null"},
    {"no_rope_layers", "null"},
    {"partial_rotary_factor", "1"},
    {"rope_interleaved", "false"},
    {"kv_lora_rank", "null"},
    {"q_lora_rank", "null"},
    {"qk_norm", "false"},
    {"use_qk_norm", "false"},
    {"qk_layernorm", "false"},
    {"alibi", "false"},
    {"attention_multiplier", "null"},
    {"attn_logit_softcapping", "null"},
    {"query_pre_attn_scalar", "null"},
    {"attention_out_bias", "false"},
    {"is_encoder_decoder", "false"},
    {"add_cross_attention", "false"},
    // what is scaled beside it
    {"final_logit_softcapping", "null"},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"embedding_multiplier", "1"},
    {"residual_multiplier", "1"},
    {"scale_emb", "1"},
    {"scale_depth", "null"},
    {"use_parallel_residual", "false"},
});

void check_features(const ConfigFields& fields, const FamilyDefaults& defaults,
                    ModelConfig& model) {
  if (fields.word("hidden_act", "silu") != "silu") {
    fields.refuse("hidden_act", fields.word("hidden_act", "silu"), "silu");
  }
  fields.only("attention_dropout", 0.0);
  fields.only("hidden_dropout", 0.0);
  fields.only("mlp_bias", false);
  fields.only("attention_bias", false);
  check_neutral(fields, defaults.experts);
  if (fields.has("pretraining_tp") && fields.count("pretraining_tp", 1) > 1) {
    model.warnings.push_back("pretraining_tp has no effect on training");
  }
}

void check_heads(const ConfigFields& fields, const ModelConfig& model, bool has_head_dim) {
  if (model.heads % model.kv_heads != 0) {
    fields.refuse("num_key_value_heads", text(model.kv_heads),
                  text("a divisor of num_attention_heads=", model.heads));
  }
  if (!has_head_dim && model.hidden_size % model.heads != 0) {
    fields.refuse("hidden_size", text(model.hidden_size),
                  text("a multiple of num_attention_heads=", model.heads));
  }
  if (model.head_dim % 2 != 0) {
    fields.refuse("head_dim", text(model.head_dim), "an even number, whose halves can be rotated");
  }
}

}  // namespace

void check_neutral(const ConfigFields& fields, bool experts) {
  for (const Feature& feature : kFeatures) {
    if (!fields.has(feature.field)) continue;
    if (experts && feature.field == "num_local_experts") continue;
    const Json& found = fields.at(feature.field);
    const Json neutral = Json::parse(feature.neutral);
    if (found == neutral) continue;
    const std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    fields.refuse(feature.field, shown.size() > 40 ? "a long value" : shown,
                  neutral.is_null() ? "none: it cannot be trained"
                                    : text("none, or ", feature.neutral, ": it cannot be trained"));
  }
}

bool ConfigFields::has(std::string_view field) const {
  const auto found = json_.find(std::string(field));
  return found != json_.end() && !found->is_null();
}

bool ConfigFields::is_null(std::string_view field) const {
  const auto found = json_.find(std::string(field));
  return found != json_.end() && found->is_null();
}

const Json& ConfigFields::at(std::string_view field) const { return json_.at(std::string(field)); }

std::int64_t ConfigFields::count(std::string_view field, std::int64_t fallback) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const std::int64_t value = get_or<std::int64_t>(json_, name_, field, fallback);
  if (value < 1 || value > kMost) refuse(field, text(value), "a whole number from 1 to 2^31");
  return value;
}

double ConfigFields::real(std::string_view field, double fallback) const {
  return get_or<double>(json_, name_, field, fallback);
}

bool ConfigFields::flag(std::string_view field, bool fallback) const {
  return get_or<bool>(json_, name_, field, fallback);
}

std::string ConfigFields::word(std::string_view field, const std::string& fallback) const {
  return get_or<std::string>(json_, name_, field, fallback);
}

void ConfigFields::refuse(std::string_view field, const std::string& found,
                          const std::string& expected) const {
  throw Error(ErrorCode::kInvalidConfig, {.what = text(name_, ": ", field),
                                          .found = found,
                                          .expected = expected,
                                          .fix = "change the field or train another model"});
}

void ConfigFields::only(std::string_view field, bool value) const {
  if (flag(field, value) != value)
    refuse(field, value ? "false" : "true", value ? "true" : "false");
}

void ConfigFields::only(std::string_view field, double value) const {
  if (real(field, value) != value) refuse(field, text(real(field, value)), text(value));
}

void check_layer_types(const ConfigFields& fields, const ModelConfig& model) {
  if (!fields.has("layer_types")) return;
  const Json& types = fields.at("layer_types");
  if (!types.is_array() || types.size() != model.windows.size()) {
    fields.refuse("layer_types", text(types.size(), " entries"), "one for each layer");
  }
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    const char* const expected = model.windows[layer] > 0 ? "sliding_attention" : "full_attention";
    if (types[layer] == expected) continue;
    fields.refuse("layer_types",
                  text(types[layer].dump(-1, ' ', false, Json::error_handler_t::replace),
                       " for layer ", layer),
                  text(expected, ", as its other fields say"));
  }
}

ModelConfig read_llama_like(const ConfigFields& fields, const FamilyDefaults& defaults) {
  ModelConfig model;
  model.vocab_size = fields.count("vocab_size", defaults.vocab_size);
  model.hidden_size = fields.count("hidden_size", defaults.hidden_size);
  model.intermediate_size = fields.count("intermediate_size", defaults.intermediate_size);
  const std::int64_t layers = fields.count("num_hidden_layers", defaults.layers);
  if (layers > 100'000) fields.refuse("num_hidden_layers", text(layers), "at most 100000");
  model.layers = static_cast<int>(layers);
  model.heads = fields.count("num_attention_heads", defaults.heads);
  // An absent field takes the family's default; null always means "as many as heads".
  const bool is_null = fields.is_null("num_key_value_heads");
  const std::int64_t kv_default =
      is_null || defaults.kv_heads == 0 ? model.heads : defaults.kv_heads;
  model.kv_heads = fields.count("num_key_value_heads", kv_default);
  const bool has_head_dim =
      defaults.reads_head_dim && (fields.has("head_dim") || defaults.head_dim > 0);
  model.head_dim = has_head_dim
                       ? fields.count("head_dim", std::max<std::int64_t>(defaults.head_dim, 1))
                       : model.hidden_size / model.heads;
  if (!defaults.reads_head_dim && fields.count("head_dim", model.head_dim) != model.head_dim) {
    fields.refuse("head_dim", text(fields.count("head_dim", 1)),
                  text(model.head_dim, ", hidden_size / num_attention_heads"));
  }
  model.max_position_embeddings =
      fields.count("max_position_embeddings", defaults.max_position_embeddings);
  model.rms_norm_eps = fields.real("rms_norm_eps", defaults.rms_norm_eps);
  if (!(model.rms_norm_eps > 0)) fields.refuse("rms_norm_eps", text(model.rms_norm_eps), "above 0");
  model.initializer_range = fields.real("initializer_range", 0.02);
  model.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  model.windows.assign(static_cast<std::size_t>(model.layers), 0);
  check_features(fields, defaults, model);
  check_heads(fields, model, has_head_dim);
  model.rope_theta = fields.real("rope_theta", defaults.rope_theta);
  read_rope(fields, model);
  return model;
}

}  // namespace hethub
