#include "hethub/predict/model_ops.h"

#include <algorithm>

#include "hethub/base/text.h"
#include "hethub/model/decoder.h"
#include "hethub/program/differentiate.h"

namespace hethub {
namespace {

// The program of a run is built as any; in 16 bits its values and ops on them are half as large.
Op in_dtype(Op op, DType dtype) {
  op.dtype = dtype;
  return op;
}

void add(std::vector<ModelOps::Counted>& list, Op op) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const ModelOps::Counted& one) {
    return same_work(one.op, op);
  });
  if (found != list.end()) {
    ++found->times;
  } else {
    list.push_back({std::move(op), 1});
  }
}

// Sorts a phase's ops; in a backward phase the head comes first.
ModelOps::Part sorted(const std::vector<Instruction>& phase, bool forwards, DType dtype) {
  ModelOps::Part part;
  bool met_layer = false;
  for (const Instruction& instruction : phase) {
    const bool in_layer = instruction.layer >= 0;
    met_layer = met_layer || in_layer;
    auto& list = in_layer ? part.layer : met_layer == forwards ? part.after : part.before;
    add(list, in_dtype(instruction.op, dtype));
  }
  return part;
}

}  // namespace

DType dtype_of(const PublishedRun& run) {
  if (run.dtype == "f32") return DType::kF32;
  return run.dtype == "bf16" ? DType::kBf16 : DType::kF16;
}

const ModelOps& ModelOpsCache::of(const PublishedRun& run) {
  const ModelConfig& model = run.model;
  const std::string key =
      text(model.hidden_size, ' ', model.intermediate_size, ' ', model.heads, ' ', model.kv_heads,
           ' ', model.vocab_size, ' ', model.tie_word_embeddings, ' ', run.sequence_length, ' ',
           run.micro_batch_size, ' ', run.tensor_parallel, ' ', run.context_parallel, ' ',
           static_cast<int>(run.recompute), ' ', run.dtype);
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second;
  ModelConfig one = model;
  one.layers = 1;
  Program program = build_forward(
      one, {0, 1, true, true},
      {.sequences = run.micro_batch_size,
       .sequence_length = run.sequence_length / run.context_parallel},
      {.width = run.tensor_parallel,
       .layout = run.tensor_parallel > 1 ? TensorLayout::kSplit : TensorLayout::kWhole});
  DifferentiateOptions options;
  if (run.recompute == Recompute::kFull) options.recompute_layers.insert(0);
  if (run.recompute == Recompute::kSelective) options.selective_layers.insert(0);
  differentiate(program, options);
  const DType dtype = dtype_of(run);
  ModelOps ops;
  for (int phase = 0; phase < kPhases; ++phase) {
    ops.phases[phase] = sorted(program.phase(static_cast<Phase>(phase)), phase == 0, dtype);
  }
  for (const int value : program.values_of(ValueRole::kParameter)) {
    const bool in_layer = program.values[value].name.find(".layers.") != std::string::npos;
    const auto elements = static_cast<double>(program.values[value].spec.elements());
    if (in_layer) ops.layer_parameters += elements;
    if (program.values[value].name == "model.embed_tokens.weight") ops.table_parameters = elements;
  }
  return kept_[key] = std::move(ops);
}

}  // namespace hethub
