#include "hethub/op/op.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "hethub/base/text.h"
#include "hethub/op/expert_facts.h"

namespace hethub {
namespace {

// Scratch of a matrix product: a library may keep packed copies of its operands, in blocks.
std::int64_t matmul_workspace(std::int64_t rows, std::int64_t in, std::int64_t out) {
  constexpr std::int64_t kMost = std::int64_t{8} << 20;
  return std::min(kMost, 4 * (rows * in + in * out + rows * out) + (std::int64_t{256} << 10));
}

TensorSpec f32(std::vector<std::int64_t> shape) { return {DType::kF32, std::move(shape)}; }
TensorSpec i32(std::vector<std::int64_t> shape) { return {DType::kI32, std::move(shape)}; }

// Pairs of positions the causal mask keeps in one sequence. Document starts are not known here,
// so this is the most there can be.
double kept_pairs(const Attention& op) {
  const auto n = static_cast<double>(op.seq);
  if (op.window == 0 || op.window >= op.seq) return 0.5 * n * (n + 1);
  const auto w = static_cast<double>(op.window);
  return w * n - 0.5 * w * (w - 1);
}

// One overload per op. A new op is a struct in op.h, an overload here, a gradient rule and a kernel
// per backend; the compiler names every place that was forgotten.

OpFacts facts(const Linear& op, DType type) {
  OpFacts all{.kind = "linear",
              .inputs = {{type, {op.rows, op.in}}, {type, {op.out, op.in}}},
              .outputs = {{{type, {op.rows, op.out}}}},
              .flops = 2.0 * op.rows * op.in * op.out + (op.bias ? 1.0 * op.rows * op.out : 0.0),
              .workspace_bytes = matmul_workspace(op.rows, op.in, op.out)};
  if (op.bias) all.inputs.push_back({type, {op.out}});
  return all;
}

OpFacts facts(const LinearGradInput& op, DType type) {
  return {.kind = "linear_grad_input",
          .inputs = {{type, {op.rows, op.out}}, {type, {op.out, op.in}}},
          .outputs = {{{type, {op.rows, op.in}}}},
          .flops = 2.0 * op.rows * op.in * op.out,
          .workspace_bytes = matmul_workspace(op.rows, op.in, op.out)};
}

OpFacts facts(const LinearGradWeight& op, DType type) {
  return {.kind = "linear_grad_weight",
          .inputs = {{type, {op.rows, op.out}}, {type, {op.rows, op.in}}, f32({op.out, op.in})},
          .outputs = {{.spec = f32({op.out, op.in}), .updates = 2}},
          .flops = 2.0 * op.rows * op.in * op.out,
          .workspace_bytes = matmul_workspace(op.rows, op.in, op.out)};
}

OpFacts facts(const BiasGrad& op, DType type) {
  return {.kind = "bias_grad",
          .inputs = {{type, {op.rows, op.width}}, f32({op.width})},
          .outputs = {{.spec = f32({op.width}), .updates = 1}},
          .flops = 1.0 * op.rows * op.width};
}

OpFacts facts(const Embedding& op, DType type) {
  return {.kind = "embedding",
          .inputs = {i32({op.rows}), {type, {op.vocab, op.width}}},
          .outputs = {{{type, {op.rows, op.width}}}}};
}

OpFacts facts(const EmbeddingGrad& op, DType type) {
  return {.kind = "embedding_grad",
          .inputs = {i32({op.rows}), {type, {op.rows, op.width}}, f32({op.vocab, op.width})},
          .outputs = {{.spec = f32({op.vocab, op.width}), .updates = 2}},
          .flops = 1.0 * op.rows * op.width};
}

// Per element: square, sum, scale by rstd, scale by gain.
OpFacts facts(const RmsNorm& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "rms_norm",
          .inputs = {rows, {type, {op.width}}},
          .outputs = {{rows}, {f32({op.rows})}},
          .flops = 4.0 * op.rows * op.width};
}

OpFacts facts(const RmsNormGradInput& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "rms_norm_grad_input",
          .inputs = {rows, rows, {type, {op.width}}, f32({op.rows})},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 7.0 * op.rows * op.width};
}

OpFacts facts(const RmsNormGradGain& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "rms_norm_grad_gain",
          .inputs = {rows, rows, f32({op.rows}), f32({op.width})},
          .outputs = {{.spec = f32({op.width}), .updates = 3}},
          .flops = 3.0 * op.rows * op.width};
}

// Per element: sum, subtract, square, sum, scale by rstd, scale by gain, add the bias.
OpFacts facts(const LayerNorm& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "layer_norm",
          .inputs = {rows, {type, {op.width}}, {type, {op.width}}},
          .outputs = {{rows}, {f32({op.rows})}, {f32({op.rows})}},
          .flops = 7.0 * op.rows * op.width};
}

OpFacts facts(const LayerNormGradInput& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "layer_norm_grad_input",
          .inputs = {rows, rows, {type, {op.width}}, f32({op.rows}), f32({op.rows})},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 11.0 * op.rows * op.width};
}

OpFacts facts(const LayerNormGradGain& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "layer_norm_grad_gain",
          .inputs = {rows, rows, f32({op.rows}), f32({op.rows}), f32({op.width})},
          .outputs = {{.spec = f32({op.width}), .updates = 4}},
          .flops = 4.0 * op.rows * op.width};
}

OpFacts facts(const AddBias& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "add_bias",
          .inputs = {rows, {type, {op.width}}},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 1.0 * op.rows * op.width};
}

OpFacts facts(const Rope& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.heads * op.head_dim}};
  return {.kind = "rope",
          .inputs = {rows, i32({op.rows}), f32({op.table_rows, op.head_dim})},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 3.0 * op.rows * op.heads * op.head_dim};
}

// Two products (q·kᵀ and p·v) over the pairs the mask keeps. The scores stay on chip.
OpFacts facts(const Attention& op, DType type) {
  const TensorSpec query{type, {op.batch * op.seq, op.heads * op.head_dim}};
  const TensorSpec key{type, {op.batch * op.seq, op.kv_heads * op.head_dim}};
  OpFacts all{.kind = "attention",
              .inputs = {query, key, key},
              .outputs = {{query}, {f32({op.batch, op.heads, op.seq})}},
              .flops = 2 * 2.0 * op.batch * op.heads * op.head_dim * kept_pairs(op),
              .workspace_bytes = std::int64_t{4} << 20};
  if (op.documents) all.inputs.push_back(i32({op.batch * op.seq}));
  return all;
}

// dq is summed over tiles: in f32, which a narrow output has no room for.
std::int64_t aligned_sums(std::int64_t elements) { return (4 * elements + 255) / 256 * 256; }

// Five products over the same pairs: the scores again, and one each for dv, dp, dq and dk.
OpFacts facts(const AttentionGrad& op, DType type) {
  const OpFacts forward = facts(op.forward, type);
  const TensorSpec& query = forward.inputs[0];
  const TensorSpec& key = forward.inputs[1];
  OpFacts all{.kind = "attention_grad",
              .inputs = {query, query, key, key, query, forward.outputs[1].spec},
              .outputs = {{query}, {key}, {key}},
              .flops = 2.5 * forward.flops,
              .workspace_bytes = forward.workspace_bytes + forward.outputs[1].spec.bytes()};
  if (size_of(type) < 4) all.workspace_bytes += aligned_sums(query.elements());
  if (op.forward.documents) all.inputs.push_back(forward.inputs.back());
  return all;
}

// Per element: negate, exp, add one, divide, and the product with `up`.
OpFacts facts(const SiluMul& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "silu_mul",
          .inputs = {rows, rows},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 5.0 * op.rows * op.width};
}

OpFacts facts(const SiluMulGrad& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "silu_mul_grad",
          .inputs = {rows, rows, rows},
          .outputs = {{.spec = rows, .may_reuse = 1}, {.spec = rows, .may_reuse = 2}},
          .flops = 10.0 * op.rows * op.width};
}

// Per element: the cubic polynomial (4), tanh as an exponential and a quotient (5), the rest (2).
OpFacts facts(const Gelu& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "gelu",
          .inputs = {rows},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 11.0 * op.rows * op.width};
}

OpFacts facts(const GeluGrad& op, DType type) {
  const TensorSpec rows{type, {op.rows, op.width}};
  return {.kind = "gelu_grad",
          .inputs = {rows, rows},
          .outputs = {{.spec = rows, .may_reuse = 0}},
          .flops = 18.0 * op.rows * op.width};
}

OpFacts facts(const Add& op, DType type) {
  const TensorSpec vector{type, {op.count}};
  return {.kind = "add",
          .inputs = {vector, vector},
          .outputs = {{.spec = vector, .may_reuse = 0}},
          .flops = 1.0 * op.count};
}

OpFacts facts(const Accumulate& op, DType type) {
  const TensorSpec vector{type, {op.count}};
  return {.kind = "accumulate",
          .inputs = {vector, {type, {(op.terms - 1) * op.stride + op.count}}},
          .outputs = {{.spec = vector, .updates = 0}},
          .flops = 1.0 * op.terms * op.count};
}

OpFacts facts(const Fill& op, DType type) {
  return {.kind = "fill", .outputs = {{{type, {op.count}}}}};
}

// Per element: maximum, subtract, exp, sum.
OpFacts facts(const CrossEntropy& op, DType type) {
  return {.kind = "cross_entropy",
          .inputs = {{type, {op.rows, op.vocab}}, i32({op.rows})},
          .outputs = {{f32({op.rows})}, {f32({op.rows})}},
          .flops = 4.0 * op.rows * op.vocab};
}

OpFacts facts(const LogSumExp& op, DType type) {
  return {.kind = "log_sum_exp",
          .inputs = {{type, {op.rows, op.width}}},
          .outputs = {{f32({op.rows})}},
          .flops = 4.0 * op.rows * op.width};
}

// Per part of a row: maximum, subtract, exp, sum.
OpFacts facts(const CrossEntropyPart& op, DType type) {
  return {.kind = "cross_entropy_part",
          .inputs = {{type, {op.rows, op.vocab}}, i32({op.rows}), f32({op.parts, op.rows})},
          .outputs = {{f32({op.rows})}, {f32({op.rows})}},
          .flops = 4.0 * op.rows * op.parts};
}

OpFacts facts(const CrossEntropyGrad& op, DType type) {
  const TensorSpec logits{type, {op.rows, op.vocab}};
  return {.kind = "cross_entropy_grad",
          .inputs = {logits, i32({op.rows}), f32({op.rows})},
          .outputs = {{.spec = logits, .may_reuse = 0}},
          .flops = 3.0 * op.rows * op.vocab};
}

OpFacts facts(const SumSquares& op, DType type) {
  return {.kind = "sum_squares",
          .inputs = {{type, {op.count}}},
          .outputs = {{f32({1})}},
          .flops = 2.0 * op.count,
          .workspace_bytes = 4096};
}

OpFacts facts(const Convert& op, DType type) {
  return {.kind = "convert", .inputs = {f32({op.count})}, .outputs = {{{type, {op.count}}}}};
}

OpFacts facts(const AdamW& op, DType /*type*/) {
  const TensorSpec vector = f32({op.count});
  return {.kind = "adamw",
          .inputs = {vector, vector, vector, vector, f32({kAdamWScalars})},
          .outputs = {{.spec = vector, .updates = 0},
                      {.spec = vector, .updates = 1},
                      {.spec = vector, .updates = 2}},
          .flops = 14.0 * op.count};
}

// A reduce-scatter works on a copy of its whole input.
OpFacts facts(const GroupStart& op, DType type) {
  const bool copies = op.kind == GroupKind::kReduceScatter;
  OpFacts all{.kind = "group_start",
              .inputs = {{type, {op.in_count}}},
              .outputs = {{.spec = {type, {op.out_count}}}},
              .workspace_bytes = (op.scratch + (copies ? op.in_count : 0)) * size_of(type)};
  if (op.kind == GroupKind::kAllReduce) all.outputs[0].may_reuse = 0;
  if (op.kind != GroupKind::kAllToAll) return all;
  all.inputs.push_back(i32({op.ranks, op.exchange.experts + 1}));
  if (!op.exchange.returns) all.outputs.push_back({.spec = i32({op.exchange.held + 1})});
  return all;
}

OpFacts facts(const GroupWait& op, DType type) {
  const TensorSpec vector{type, {op.count}};
  return {.kind = "group_wait", .inputs = {vector}, .outputs = {{.spec = vector, .updates = 0}}};
}

std::string sizes(const Linear& op) {
  return text("rows=", op.rows, " in=", op.in, " out=", op.out, op.bias ? " bias" : "");
}
std::string sizes(const LinearGradInput& op) {
  return text("rows=", op.rows, " in=", op.in, " out=", op.out);
}
std::string sizes(const LinearGradWeight& op) {
  return text("rows=", op.rows, " in=", op.in, " out=", op.out);
}
std::string sizes(const Attention& op) {
  return text("batch=", op.batch, " seq=", op.seq, " heads=", op.heads, " kv_heads=", op.kv_heads,
              " head_dim=", op.head_dim, " window=", op.window, op.documents ? " documents" : "");
}
std::string sizes(const AttentionGrad& op) { return sizes(op.forward); }
std::string sizes(const Rope& op) {
  return text("rows=", op.rows, " heads=", op.heads, " head_dim=", op.head_dim,
              " table_rows=", op.table_rows, op.inverse ? " inverse" : "");
}
std::string sizes(const GroupStart& op) {
  const bool exchanges = op.kind == GroupKind::kAllToAll;
  return text("kind=", static_cast<int>(op.kind), " group=", op.group, " in=", op.in_count,
              " out=", op.out_count, " ranks=", op.ranks,
              exchanges ? text(" width=", op.exchange.width, " load=", op.exchange.load) : "");
}
std::string sizes(const CrossEntropyPart& op) {
  return text("rows=", op.rows, " vocab=", op.vocab, " parts=", op.parts);
}
std::string sizes(const Accumulate& op) {
  return text("count=", op.count,
              op.terms > 1 ? text(" terms=", op.terms, " stride=", op.stride) : std::string(),
              op.reduction != Reduction::kSum ? text(" ", name_of(op.reduction)) : std::string(),
              op.divisor > 1 ? text(" divisor=", op.divisor) : std::string());
}
std::string sizes(const AdamW& op) { return text("count=", op.count, op.decay ? " decay" : ""); }

template <typename T>
std::string sizes(const T& op) {
  if constexpr (requires {
                  op.vocab;
                  op.width;
                }) {
    return text("rows=", op.rows, " vocab=", op.vocab, " width=", op.width);
  } else if constexpr (requires { op.vocab; }) {
    return text("rows=", op.rows, " vocab=", op.vocab);
  } else if constexpr (requires { op.rows; }) {
    return text("rows=", op.rows, " width=", op.width);
  } else {
    return text("count=", op.count);
  }
}

}  // namespace

std::int64_t TensorSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

double OpFacts::bytes() const {
  double total = 0;
  for (const TensorSpec& input : inputs) {
    total += static_cast<double>(input.bytes());
  }
  for (const OutputFacts& output : outputs) {
    total += static_cast<double>(output.spec.bytes());
  }
  return total;
}

OpFacts facts_of(const Op& op) {
  return std::visit([&](const auto& body) { return facts(body, op.dtype); }, op.body);
}

std::string sizes_text(const Op& op) {
  return std::visit([](const auto& body) { return sizes(body); }, op.body);
}

}  // namespace hethub
