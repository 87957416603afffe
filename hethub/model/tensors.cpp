#include "hethub/model/tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "hethub/base/philox.h"
#include "hethub/base/text.h"

namespace hethub {
namespace {

void add_layer(std::vector<ModelTensor>& all, const ModelConfig& model, int layer) {
  const std::string at = text("model.layers.", layer, ".");
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t query = model.heads * model.head_dim;
  const std::int64_t key = model.kv_heads * model.head_dim;
  const auto norm = [&](const char* name) {
    all.push_back({at + name + ".weight", {hidden}, InitialValue::kOnes});
  };
  const auto projection = [&](const std::string& name, TensorSplit split, std::int64_t out,
                              std::int64_t in, bool bias = false) {
    all.push_back({at + name + ".weight", {out, in}, InitialValue::kNormal, split});
    if (bias) all.push_back({at + name + ".bias", {out}, InitialValue::kZeros, split});
  };
  norm("input_layernorm");
  projection("self_attn.q_proj", TensorSplit::kRows, query, hidden, model.qkv_bias);
  projection("self_attn.k_proj", TensorSplit::kKeyHeads, key, hidden, model.qkv_bias);
  projection("self_attn.v_proj", TensorSplit::kKeyHeads, key, hidden, model.qkv_bias);
  projection("self_attn.o_proj", TensorSplit::kColumns, hidden, query);
  if (model.qk_norm) {
    for (const char* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
      all.push_back({at + name, {model.head_dim}, InitialValue::kOnes});
    }
  }
  norm("post_attention_layernorm");
  projection("mlp.gate_proj", TensorSplit::kRows, model.intermediate_size, hidden);
  projection("mlp.up_proj", TensorSplit::kRows, model.intermediate_size, hidden);
  projection("mlp.down_proj", TensorSplit::kColumns, hidden, model.intermediate_size);
}

}  // namespace

std::int64_t ModelTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<ModelTensor> tensors_of(const ModelConfig& model) {
  return tensors_of(model, {0, model.layers, true, true});
}

std::vector<ModelTensor> tensors_of(const ModelConfig& model, const Slice& slice) {
  std::vector<ModelTensor> all;
  const std::vector<std::int64_t> table = {model.vocab_size, model.hidden_size};
  if (slice.embedding || (slice.head && model.tie_word_embeddings)) {
    all.push_back({"model.embed_tokens.weight", table, InitialValue::kNormal, TensorSplit::kRows});
  }
  for (int layer = slice.begin; layer < slice.end; ++layer) {
    add_layer(all, model, layer);
  }
  if (slice.head) {
    all.push_back({"model.norm.weight", {model.hidden_size}, InitialValue::kOnes});
    if (!model.tie_word_embeddings) {
      all.push_back({"lm_head.weight", table, InitialValue::kNormal, TensorSplit::kRows});
    }
  }
  return all;
}

void write_initial_values(const ModelConfig& model, const ModelTensor& tensor, std::uint64_t seed,
                          std::int64_t first, std::span<float> values) {
  switch (tensor.initial) {
    case InitialValue::kZeros:
      return std::fill(values.begin(), values.end(), 0.0F);
    case InitialValue::kOnes:
      return std::fill(values.begin(), values.end(), 1.0F);
    case InitialValue::kNormal:
      break;
  }
  const auto key = philox_key(seed, tensor.name);
  for (std::size_t index = 0; index < values.size(); ++index) {
    const auto element = static_cast<std::uint64_t>(first) + index;
    values[index] = static_cast<float>(model.initializer_range * philox_normal(key, element));
  }
}

}  // namespace hethub
