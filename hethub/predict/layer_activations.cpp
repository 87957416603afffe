#include "hethub/predict/layer_activations.h"

#include "hethub/program/differentiate.h"
#include "hethub/program/kept.h"

namespace hethub {
namespace {

std::int64_t kept_bytes_of(const ModelConfig& model, const BatchShape& shape) {
  Program program = build_forward(model, {0, 1, false, false}, shape);
  differentiate(program, {});
  std::int64_t bytes = 0;
  for (const int value : kept_values(program)) {
    bytes += program.values[value].spec.bytes();
  }
  return bytes;
}

}  // namespace

LayerActivations layer_activations(const ModelConfig& model, const BatchShape& shape) {
  LayerActivations all{.kept_bytes = kept_bytes_of(model, shape)};
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  std::int64_t widths = 4 * model.hidden_size + 2 * queries + 2 * keys +
                        (model.gelu ? 2 : 3) * model.intermediate_size;
  std::int64_t numbers = 2 * (model.layer_norm ? 2 : 1) + model.heads;
  if (model.qk_norm) {
    widths += queries + keys;
    numbers += model.heads + model.kv_heads;
  }
  if (model.experts == 0) all.formula_bytes = shape.rows() * widths * size_of(shape.dtype);
  all.statistics_bytes = shape.rows() * numbers * size_of(DType::kF32);
  return all;
}

}  // namespace hethub
