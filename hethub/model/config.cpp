#include "hethub/model/config.h"

#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/model/config_fields.h"
#include "hethub/model/tensors.h"

namespace hethub {
namespace {

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  ModelConfig (*read)(const ConfigFields&);
};

// A new family is a file and a row.
constexpr std::array<Family, 6> kFamilies = {{
    {"gpt2", "GPT2LMHeadModel", read_gpt2},
    {"llama", "LlamaForCausalLM", read_llama},
    {"mistral", "MistralForCausalLM", read_mistral},
    {"mixtral", "MixtralForCausalLM", read_mixtral},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3},
}};

const Family& family_of(const ConfigFields& fields, const Json& json) {
  const std::string type = fields.word("model_type", "");
  std::string known;
  for (const Family& family : kFamilies) {
    known += text(known.empty() ? "" : ", ", family.model_type);
    if (family.model_type != type) continue;
    if (fields.has("architectures")) {
      const Json& names = json.at("architectures");
      const bool matches = names.is_array() && names.size() == 1 && names[0] == family.architecture;
      if (!matches) {
        fields.refuse("architectures", names.dump(), text("[\"", family.architecture, "\"]"));
      }
    }
    return family;
  }
  fields.refuse("model_type", type.empty() ? "nothing" : type, "one of " + known);
}

template <typename T>
std::string shown(const T& value) {
  return text(value);
}

std::string shown(bool value) { return value ? "true" : "false"; }

std::string shown(const std::vector<std::int64_t>& windows) {
  std::string all;
  for (const std::int64_t window : windows) {
    all += text(all.empty() ? "" : " ", window);
  }
  return all;
}

}  // namespace

ModelConfig parse_model(const std::string& content, const std::string& name) {
  const Json json = parse_document(content, name);
  if (!json.is_object()) {
    throw Error(ErrorCode::kInvalidConfig, {.what = name,
                                            .found = "no object",
                                            .expected = "the fields of a config.json",
                                            .fix = "pass a Hugging Face config.json"});
  }
  const ConfigFields fields(json, name);
  const Family& family = family_of(fields, json);
  ModelConfig model = family.read(fields);
  check_layer_types(fields, model);
  model.family = family.model_type;
  model.json = content;
  return model;
}

ModelConfig read_model(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  return parse_model(read_file(file), file.string());
}

std::vector<std::string> differing_fields(const ModelConfig& a, const ModelConfig& b) {
  std::vector<std::string> fields;
  const auto compare = [&](const char* field, const auto& mine, const auto& other) {
    if (mine != other)
      fields.push_back(text(field, " (", shown(mine), ", not ", shown(other), ")"));
  };
  compare("model_type", a.family, b.family);
  compare("vocab_size", a.vocab_size, b.vocab_size);
  compare("hidden_size", a.hidden_size, b.hidden_size);
  compare("intermediate_size", a.intermediate_size, b.intermediate_size);
  compare("num_hidden_layers", a.layers, b.layers);
  compare("num_attention_heads", a.heads, b.heads);
  compare("num_key_value_heads", a.kv_heads, b.kv_heads);
  compare("head_dim", a.head_dim, b.head_dim);
  compare("rms_norm_eps", a.rms_norm_eps, b.rms_norm_eps);
  compare("rope_theta", a.rope_theta, b.rope_theta);
  compare("rope_scaling", text_of(a.rope_scaling), text_of(b.rope_scaling));
  compare("tie_word_embeddings", a.tie_word_embeddings, b.tie_word_embeddings);
  compare("sliding_window", a.windows, b.windows);
  compare("num_local_experts", a.experts, b.experts);
  compare("num_experts_per_tok", a.experts_per_token, b.experts_per_token);
  compare("router_aux_loss_coef", a.balance, b.balance);
  return fields;
}

std::int64_t parameter_count(const ModelConfig& model) {
  std::int64_t total = 0;
  for (const ModelTensor& tensor : tensors_of(model)) {
    total += tensor.elements();
  }
  return total;
}

std::int64_t active_parameter_count(const ModelConfig& model) {
  std::int64_t total = 0;
  for (const ModelTensor& tensor : tensors_of(model)) {
    const bool chosen = tensor.split == TensorSplit::kExperts;
    total +=
        chosen ? tensor.elements() / model.experts * model.experts_per_token : tensor.elements();
  }
  return total;
}

double model_flops_per_token(const ModelConfig& model, std::int64_t sequence_length) {
  return 6.0 * static_cast<double>(active_parameter_count(model)) +
         12.0 * model.layers * static_cast<double>(model.heads * model.head_dim * sequence_length);
}

}  // namespace hethub
