#include "hethub/program/gradient_rules.h"

#include <type_traits>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// One rule per op: `kept` names what it reads of the forward pass, `write` the ops it becomes.

struct Context {
  const Instruction& forward;
  int gradient;
  const GradientWriter& writer;

  int in(int index) const { return forward.inputs.at(index); }
  int out(int index) const { return forward.outputs.at(index); }
  Op op(const char* suffix, OpBody body) const {
    return {forward.op.name + suffix, forward.op.dtype, std::move(body)};
  }
};

std::vector<int> kept(const Linear&, const Instruction& f) { return {f.inputs[0], f.inputs[1]}; }
void write(const Linear& op, const Context& c) {
  if (op.bias) {
    c.writer.emit_weight(c.op(".grad_bias", BiasGrad{op.rows, op.out}), {c.gradient}, c.in(2));
  }
  c.writer.emit_weight(c.op(".grad_weight", LinearGradWeight{op.rows, op.in, op.out}),
                       {c.gradient, c.in(0)}, c.in(1));
  if (!c.writer.wanted(c.in(0))) return;
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", LinearGradInput{op.rows, op.in, op.out}),
                                      {c.gradient, c.in(1)})[0]);
}

// As a forward op: y[rows, in] = x[rows, out] · w[out, in].
std::vector<int> kept(const LinearGradInput&, const Instruction& f) {
  return {f.inputs[0], f.inputs[1]};
}
void write(const LinearGradInput& op, const Context& c) {
  c.writer.emit_weight(c.op(".grad_weight", LinearGradWeight{op.rows, op.in, op.out}),
                       {c.in(0), c.gradient}, c.in(1));
  if (!c.writer.wanted(c.in(0))) return;
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", Linear{op.rows, op.in, op.out}),
                                      {c.gradient, c.in(1)})[0]);
}

std::vector<int> kept(const Embedding&, const Instruction& f) { return {f.inputs[0]}; }
void write(const Embedding& op, const Context& c) {
  c.writer.emit_weight(
      c.op(".grad_weight", EmbeddingGrad{op.rows, op.vocab, op.width, op.first, op.of}),
      {c.in(0), c.gradient}, c.in(1));
}

std::vector<int> kept(const RmsNorm&, const Instruction& f) {
  return {f.inputs[0], f.inputs[1], f.outputs[1]};
}
void write(const RmsNorm& op, const Context& c) {
  c.writer.emit_weight(c.op(".grad_weight", RmsNormGradGain{op.rows, op.width}),
                       {c.gradient, c.in(0), c.out(1)}, c.in(1));
  if (!c.writer.wanted(c.in(0))) return;
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", RmsNormGradInput{op.rows, op.width}),
                                      {c.gradient, c.in(0), c.in(1), c.out(1)})[0]);
}

std::vector<int> kept(const LayerNorm&, const Instruction& f) {
  return {f.inputs[0], f.inputs[1], f.outputs[1], f.outputs[2]};
}
void write(const LayerNorm& op, const Context& c) {
  c.writer.emit_weight(c.op(".grad_weight", LayerNormGradGain{op.rows, op.width}),
                       {c.gradient, c.in(0), c.out(1), c.out(2)}, c.in(1));
  c.writer.emit_weight(c.op(".grad_bias", BiasGrad{op.rows, op.width}), {c.gradient}, c.in(2));
  if (!c.writer.wanted(c.in(0))) return;
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", LayerNormGradInput{op.rows, op.width}),
                                      {c.gradient, c.in(0), c.in(1), c.out(1), c.out(2)})[0]);
}

std::vector<int> kept(const AddBias&, const Instruction&) { return {}; }
void write(const AddBias& op, const Context& c) {
  c.writer.emit_weight(c.op(".grad_bias", BiasGrad{op.rows, op.width}), {c.gradient}, c.in(1));
  c.writer.add(c.in(0), c.gradient);
}

std::vector<int> kept(const Rope&, const Instruction& f) { return {f.inputs[1], f.inputs[2]}; }
void write(const Rope& op, const Context& c) {
  Rope back = op;
  back.inverse = !op.inverse;
  c.writer.add(c.in(0),
               c.writer.emit(c.op(".grad_input", back), {c.gradient, c.in(1), c.in(2)})[0]);
}

std::vector<int> kept(const Attention& op, const Instruction& f) {
  std::vector<int> all = {f.inputs[0], f.inputs[1], f.inputs[2], f.outputs[0], f.outputs[1]};
  if (op.documents) all.push_back(f.inputs[3]);
  return all;
}
void write(const Attention& op, const Context& c) {
  std::vector<int> inputs = {c.gradient, c.in(0), c.in(1), c.in(2), c.out(0), c.out(1)};
  if (op.documents) inputs.push_back(c.in(3));
  const std::vector<int> grads = c.writer.emit(c.op(".grad_input", AttentionGrad{op}), inputs);
  for (int index = 0; index < 3; ++index) {
    c.writer.add(c.in(index), grads[index]);
  }
}

std::vector<int> kept(const SiluMul&, const Instruction& f) { return f.inputs; }
void write(const SiluMul& op, const Context& c) {
  const std::vector<int> grads = c.writer.emit(c.op(".grad_input", SiluMulGrad{op.rows, op.width}),
                                               {c.gradient, c.in(0), c.in(1)});
  c.writer.add(c.in(0), grads[0]);
  c.writer.add(c.in(1), grads[1]);
}

std::vector<int> kept(const Gelu&, const Instruction& f) { return f.inputs; }
void write(const Gelu& op, const Context& c) {
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", GeluGrad{op.rows, op.width}),
                                      {c.gradient, c.in(0)})[0]);
}

std::vector<int> kept(const Router&, const Instruction& f) {
  return {f.inputs[0], f.outputs[0], f.outputs[1]};
}
void write(const Router& op, const Context& c) {
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", RouterGrad{op}),
                                      {c.gradient, c.in(0), c.out(0), c.out(1)})[0]);
}

std::vector<int> kept(const TakeRows& op, const Instruction& f) {
  return op.weighted ? f.inputs : std::vector<int>{f.inputs[1]};
}
void write(const TakeRows& op, const Context& c) {
  require(!op.weighted, {.what = c.forward.op.name + ": gradient",
                         .found = "weights",
                         .expected = "rows as they are in a forward pass",
                         .fix = "weigh rows where they are summed"});
  const SumRows back{op.rows, op.width, op.top, op.slots};
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", back), {c.gradient, c.in(1)})[0]);
}

std::vector<int> kept(const SumRows& op, const Instruction& f) {
  return op.weighted ? f.inputs : std::vector<int>{f.inputs[1]};
}
void write(const SumRows& op, const Context& c) {
  std::vector<int> inputs = {c.gradient, c.in(1)};
  if (op.weighted) {
    const SumRowsGradWeight weights{op.rows, op.width, op.top, op.slots};
    c.writer.add(c.in(2),
                 c.writer.emit(c.op(".grad_weights", weights), {c.gradient, c.in(0), c.in(1)})[0]);
    inputs.push_back(c.in(2));
  }
  const TakeRows back{op.rows, op.width, op.top, op.slots, op.weighted};
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", back), inputs)[0]);
}

std::vector<int> kept(const ExpertLinear&, const Instruction& f) { return f.inputs; }
void write(const ExpertLinear& op, const Context& c) {
  const ExpertLinearGradWeight weights{op.slots, op.in, op.out, op.experts, op.load};
  c.writer.emit_weight(c.op(".grad_weight", weights), {c.gradient, c.in(0), c.in(2)}, c.in(1));
  const ExpertLinearGradInput back{op.slots, op.in, op.out, op.experts, op.load};
  c.writer.add(c.in(0),
               c.writer.emit(c.op(".grad_input", back), {c.gradient, c.in(1), c.in(2)})[0]);
}

std::vector<int> kept(const Add&, const Instruction&) { return {}; }
void write(const Add&, const Context& c) {
  c.writer.add(c.in(0), c.gradient);
  c.writer.add(c.in(1), c.gradient);
}

std::vector<int> kept(const CrossEntropy&, const Instruction& f) {
  return {f.inputs[0], f.inputs[1], f.outputs[1]};
}
void write(const CrossEntropy& op, const Context& c) {
  c.writer.add(c.in(0),
               c.writer.emit(c.op(".grad_input",
                                  CrossEntropyGrad{.rows = op.rows, .vocab = op.vocab, .z = op.z}),
                             {c.in(0), c.in(1), c.out(1)})[0]);
}

std::vector<int> kept(const CrossEntropyPart&, const Instruction& f) {
  return {f.inputs[0], f.inputs[1], f.outputs[1]};
}
void write(const CrossEntropyPart& op, const Context& c) {
  const CrossEntropyGrad body{op.rows, op.vocab, op.first, op.of, op.z};
  c.writer.add(c.in(0), c.writer.emit(c.op(".grad_input", body), {c.in(0), c.in(1), c.out(1)})[0]);
}

// What all ranks sum, each of them uses in the same way: the gradient of the sum, which is alike on
// all, is that of each part. What is gathered or scattered comes back the other way.
// Source: Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., MLSys 2023.
std::vector<int> kept(const GroupStart& op, const Instruction& f) {
  if (op.kind == GroupKind::kAllToAll) return {f.inputs[1]};
  return {};
}
void write(const GroupStart& op, const Context& c) {
  std::vector<int> inputs = {c.gradient};
  GroupStart back = op;
  std::swap(back.in_count, back.out_count);
  switch (op.kind) {
    case GroupKind::kAllReduce:
      return c.writer.add(c.in(0), c.gradient);
    case GroupKind::kAllGather:
      back.kind = GroupKind::kReduceScatter;
      break;
    case GroupKind::kReduceScatter:
      back.kind = GroupKind::kAllGather;
      break;
    case GroupKind::kAllToAll:
      back.exchange.returns = !op.exchange.returns;
      inputs.push_back(c.in(1));
      break;
  }
  const int gradient = c.writer.emit(c.op(".grad_input", back), inputs)[0];
  c.writer.emit(c.op(".grad_input.wait", GroupWait{back.out_count}), {gradient});
  c.writer.add(c.in(0), gradient);
}

// Its output is that of the GroupStart, whose rule follows.
std::vector<int> kept(const GroupWait&, const Instruction&) { return {}; }
void write(const GroupWait&, const Context&) {}

template <typename T>
std::vector<int> kept(const T&, const Instruction&) {
  return {};
}
template <typename T>
void write(const T&, const Context& c) {
  throw Error(ErrorCode::kUnsupported, {.what = c.forward.op.name + ": gradient",
                                        .found = text("op ", facts_of(c.forward.op).kind),
                                        .expected = "an op with a gradient rule",
                                        .fix = "add its rule to program/gradient_rules.cpp"});
}

}  // namespace

void write_gradient(const Instruction& forward, int gradient, const GradientWriter& writer) {
  const Context context{forward, gradient, writer};
  std::visit([&](const auto& body) { write(body, context); }, forward.op.body);
}

std::vector<int> values_kept_for_gradient(const Instruction& forward) {
  return std::visit([&](const auto& body) { return kept(body, forward); }, forward.op.body);
}

}  // namespace hethub
