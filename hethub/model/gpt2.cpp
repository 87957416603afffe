#include <cmath>

#include "hethub/base/text.h"
#include "hethub/model/config_fields.h"

namespace hethub {
namespace {

// Published files all ask for dropout, which is no part of the model but of its first training.
void note_dropout(const ConfigFields& fields, ModelConfig& model) {
  for (const char* field : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    if (fields.real(field, 0) != 0) {
      model.warnings.push_back(text(field, " has no effect: training is without dropout"));
    }
  }
}

void check_gpt2(const ConfigFields& fields) {
  const std::string activation = fields.word("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    fields.refuse("activation_function", activation, "gelu_new");
  }
  fields.only("scale_attn_weights", true);
  fields.only("scale_attn_by_inverse_layer_idx", false);
  check_neutral(fields);
}

}  // namespace

// Layer norms, learned positions, biases, GELU. Its files hold matrices as [in, out] and the
// queries', keys' and values' as one: file_parts_of says where.
ModelConfig read_gpt2(const ConfigFields& fields) {
  ModelConfig model;
  model.vocab_size = fields.count("vocab_size", 50257);
  model.hidden_size = fields.count("n_embd", 768);
  model.intermediate_size = fields.count("n_inner", 4 * model.hidden_size);
  const std::int64_t layers = fields.count("n_layer", 12);
  if (layers > 100'000) fields.refuse("n_layer", text(layers), "at most 100000");
  model.layers = static_cast<int>(layers);
  model.heads = fields.count("n_head", 12);
  if (model.hidden_size % model.heads != 0) {
    fields.refuse("n_embd", text(model.hidden_size), text("a multiple of n_head=", model.heads));
  }
  model.kv_heads = model.heads;
  model.head_dim = model.hidden_size / model.heads;
  model.max_position_embeddings = fields.count("n_positions", 1024);
  model.rms_norm_eps = fields.real("layer_norm_epsilon", 1e-5);
  if (!(model.rms_norm_eps > 0)) {
    fields.refuse("layer_norm_epsilon", text(model.rms_norm_eps), "above 0");
  }
  model.initializer_range = fields.real("initializer_range", 0.02);
  model.residual_scale = 1 / std::sqrt(2.0 * model.layers);
  model.tie_word_embeddings = fields.flag("tie_word_embeddings", true);
  model.qkv_bias = true;
  model.biases = true;
  model.layer_norm = true;
  model.gelu = true;
  model.learned_positions = true;
  model.windows.assign(static_cast<std::size_t>(model.layers), 0);
  check_gpt2(fields);
  note_dropout(fields, model);
  return model;
}

}  // namespace hethub
