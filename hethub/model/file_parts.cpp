#include "hethub/model/file_parts.h"

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "hethub/base/text.h"

namespace hethub {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kLayers = "model.layers.";

// "model.layers.3.mlp.up_proj.weight" in its three parts; no layer: the whole name is `inner`.
struct LayerName {
  std::string layer = {};
  std::string inner = {};  // "mlp.up_proj"
  std::string kind = {};   // "weight" or "bias"
};

LayerName split_name(const std::string& name) {
  LayerName parts;
  const std::size_t dot = name.rfind('.');
  parts.kind = name.substr(dot + 1);
  parts.inner = name.substr(0, dot);
  if (!name.starts_with(kLayers)) return parts;
  const std::size_t end = name.find('.', kLayers.size());
  parts.layer = name.substr(kLayers.size(), end - kLayers.size());
  parts.inner = name.substr(end + 1, dot - end - 1);
  return parts;
}

// What GPT-2 calls a matrix or norm, and which of how many equal parts of it ours is.
struct Gpt2Row {
  std::string_view ours;
  std::string_view theirs;
  bool matrix = false;
  int part = 0;
  int parts = 1;
};

constexpr std::array kGpt2 = std::to_array<Gpt2Row>({
    {"model.embed_tokens", "wte"},
    {"model.embed_positions", "wpe"},
    {"model.norm", "ln_f"},
    {"input_layernorm", "ln_1"},
    {"post_attention_layernorm", "ln_2"},
    {"self_attn.q_proj", "attn.c_attn", true, 0, 3},
    {"self_attn.k_proj", "attn.c_attn", true, 1, 3},
    {"self_attn.v_proj", "attn.c_attn", true, 2, 3},
    {"self_attn.o_proj", "attn.c_proj", true},
    {"mlp.up_proj", "mlp.c_fc", true},
    {"mlp.down_proj", "mlp.c_proj", true},
});

FilePart gpt2_part(const ModelTensor& tensor) {
  FilePart part{.name = tensor.name, .shape = tensor.shape, .rows = tensor.shape[0]};
  const LayerName name = split_name(tensor.name);
  for (const Gpt2Row& row : kGpt2) {
    if (row.ours != name.inner) continue;
    part.name = text(kGpt2Prefix, name.layer.empty() ? "" : text("h.", name.layer, "."), row.theirs,
                     ".", name.kind);
    part.first = part.rows * row.part;
    part.shape[0] *= row.parts;
    part.transposed = row.matrix && name.kind == "weight";
    if (part.transposed) std::swap(part.shape[0], part.shape[1]);
  }
  return part;
}

// "...experts.w1.weight" lies in "...experts.0.w1.weight" and the others'.
std::vector<FilePart> expert_parts(const ModelConfig& model, const ModelTensor& tensor) {
  constexpr std::string_view kExperts = ".experts.";
  const std::size_t at = tensor.name.find(kExperts) + kExperts.size();
  const std::int64_t rows = tensor.shape[0] / model.experts;
  std::vector<FilePart> parts;
  for (std::int64_t expert = 0; expert < model.experts; ++expert) {
    parts.push_back({.name = text(tensor.name.substr(0, at), expert, ".", tensor.name.substr(at)),
                     .shape = {rows, tensor.shape[1]},
                     .row = expert * rows,
                     .rows = rows});
  }
  return parts;
}

}  // namespace

std::vector<FilePart> file_parts_of(const ModelConfig& model, const ModelTensor& tensor) {
  if (tensor.split == TensorSplit::kExperts) return expert_parts(model, tensor);
  if (model.family == "gpt2") return {gpt2_part(tensor)};
  return {{.name = tensor.name, .shape = tensor.shape, .rows = tensor.shape[0]}};
}

std::vector<FileTensor> file_tensors_of(const ModelConfig& model) {
  std::vector<FileTensor> all;
  std::map<std::string, std::size_t> index;
  for (const ModelTensor& tensor : tensors_of(model)) {
    for (const FilePart& part : file_parts_of(model, tensor)) {
      const auto [at, is_new] = index.try_emplace(part.name, all.size());
      if (is_new) all.push_back({part.name, part.shape, part.transposed});
      all[at->second].parts.emplace_back(tensor, part);
    }
  }
  return all;
}

std::string other_file_name(const ModelConfig& model, const std::string& name) {
  if (model.family != "gpt2" || !name.starts_with(kGpt2Prefix)) return {};
  return name.substr(kGpt2Prefix.size());
}

bool is_file_buffer(const ModelConfig& model, const std::string& name) {
  if (model.family != "gpt2") return false;
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace hethub
