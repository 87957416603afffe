#include "hethub/predict/model_ops.h"

#include <algorithm>

#include "hethub/base/text.h"
#include "hethub/cost/analytic.h"
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

// Frameworks that recompute selectively compute attention again and nothing beside it.
bool is_spared(const PublishedRun& run, const Op& op) {
  return run.recompute == Recompute::kSelective && op.name.ends_with(".again") && !is_attention(op);
}

}  // namespace

DType dtype_of(const PublishedRun& run) {
  if (run.dtype == "f32") return DType::kF32;
  return run.dtype == "bf16" || run.dtype == "fp8" ? DType::kBf16 : DType::kF16;
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
  one.windows.resize(1);
  const BatchShape shape{.sequences = run.micro_batch_size,
                         .sequence_length = run.sequence_length / run.context_parallel};
  const TensorParallel parallel{
      .width = run.tensor_parallel,
      .layout = run.tensor_parallel > 1 ? TensorLayout::kSplit : TensorLayout::kWhole};
  Program program = build_forward(one, slice_of(one, {0, 1}), shape, parallel);
  DifferentiateOptions options;
  add_recompute({run.recompute, {0, 1}}, options);
  differentiate(program, options);
  const DType dtype = dtype_of(run);
  ModelOps ops{.held = HeldElements(one, parallel)};
  for (int phase = 0; phase < kPhases; ++phase) {
    ops.phases[phase] = sorted_by_layer<ModelOps::Counts>(
        program, static_cast<Phase>(phase), 1,
        [&](ModelOps::Counts& part, const Instruction& instruction) {
          if (is_spared(run, instruction.op)) return;
          add(part, in_dtype(instruction.op, dtype));
        });
  }
  TensorSpec sent = sent_spec(one, shape, parallel);
  sent.dtype = dtype;
  ops.sent_bytes = static_cast<double>(sent.bytes());
  return kept_[key] = std::move(ops);
}

}  // namespace hethub
