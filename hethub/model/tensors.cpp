#include "hethub/model/tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "hethub/base/philox.h"
#include "hethub/base/text.h"

namespace hethub {
namespace {

// Adds the tensors of one layer, or of what stands after all.
class TensorList {
 public:
  TensorList(std::vector<ModelTensor>& all, const ModelConfig& model, std::string at)
      : all_(all), model_(model), at_(std::move(at)) {}

  void norm(const char* name) {
    all_.push_back({text(at_, name, ".weight"), {model_.hidden_size}, InitialValue::kOnes});
    if (!model_.layer_norm) return;
    all_.push_back({text(at_, name, ".bias"), {model_.hidden_size}, InitialValue::kZeros});
  }

  void matrix(const char* name, TensorSplit split, std::int64_t out, std::int64_t in, bool bias) {
    const bool adds = split == TensorSplit::kColumns;  // to what goes from layer to layer
    all_.push_back({.name = text(at_, name, ".weight"),
                    .shape = {out, in},
                    .split = split,
                    .scale = adds ? model_.residual_scale : 1});
    // What is added to a sum over ranks is added once.
    const TensorSplit of_bias = adds ? TensorSplit::kNone : split;
    if (bias) all_.push_back({text(at_, name, ".bias"), {out}, InitialValue::kZeros, of_bias});
  }

  void experts(const char* name, std::int64_t out, std::int64_t in) {
    all_.push_back({.name = text(at_, "block_sparse_moe.experts.", name, ".weight"),
                    .shape = {model_.experts * out, in},
                    .split = TensorSplit::kExperts});
  }

  void head_norm(const char* name) {
    all_.push_back({text(at_, name, ".weight"), {model_.head_dim}, InitialValue::kOnes});
  }

 private:
  std::vector<ModelTensor>& all_;
  const ModelConfig& model_;
  std::string at_;
};

void add_mlp(TensorList& list, const ModelConfig& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t inner = model.intermediate_size;
  if (model.experts > 0) {
    list.matrix("block_sparse_moe.gate", TensorSplit::kNone, model.experts, hidden, false);
    list.experts("w1", inner, hidden);
    list.experts("w3", inner, hidden);
    return list.experts("w2", hidden, inner);
  }
  if (!model.gelu) list.matrix("mlp.gate_proj", TensorSplit::kRows, inner, hidden, model.biases);
  list.matrix("mlp.up_proj", TensorSplit::kRows, inner, hidden, model.biases);
  list.matrix("mlp.down_proj", TensorSplit::kColumns, hidden, inner, model.biases);
}

void add_layer(std::vector<ModelTensor>& all, const ModelConfig& model, int layer) {
  TensorList list(all, model, text("model.layers.", layer, "."));
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t query = model.heads * model.head_dim;
  const std::int64_t key = model.kv_heads * model.head_dim;
  list.norm("input_layernorm");
  list.matrix("self_attn.q_proj", TensorSplit::kRows, query, hidden, model.qkv_bias);
  list.matrix("self_attn.k_proj", TensorSplit::kKeyHeads, key, hidden, model.qkv_bias);
  list.matrix("self_attn.v_proj", TensorSplit::kKeyHeads, key, hidden, model.qkv_bias);
  list.matrix("self_attn.o_proj", TensorSplit::kColumns, hidden, query, model.biases);
  if (model.qk_norm) {
    list.head_norm("self_attn.q_norm");
    list.head_norm("self_attn.k_norm");
  }
  list.norm("post_attention_layernorm");
  add_mlp(list, model);
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
    all.push_back({kEmbeddingName, table, InitialValue::kNormal, TensorSplit::kRows});
  }
  if (slice.embedding && model.learned_positions) {
    const std::vector<std::int64_t> positions = {model.max_position_embeddings, model.hidden_size};
    all.push_back({kPositionsName, positions, InitialValue::kNormal, TensorSplit::kRows});
  }
  for (int layer = slice.begin; layer < slice.end; ++layer) {
    add_layer(all, model, layer);
  }
  if (slice.head) {
    TensorList(all, model, "model.").norm("norm");
    if (!model.tie_word_embeddings) {
      all.push_back({kHeadName, table, InitialValue::kNormal, TensorSplit::kRows});
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
  const double deviation = model.initializer_range * tensor.scale;
  for (std::size_t index = 0; index < values.size(); ++index) {
    const auto element = static_cast<std::uint64_t>(first) + index;
    values[index] = static_cast<float>(deviation * philox_normal(key, element));
  }
}

}  // namespace hethub
