#include "hethub/op/expert_facts.h"

#include <algorithm>
#include <utility>

#include "hethub/base/text.h"

namespace hethub {
namespace {

TensorSpec f32(std::vector<std::int64_t> shape) { return {DType::kF32, std::move(shape)}; }
TensorSpec i32(std::vector<std::int64_t> shape) { return {DType::kI32, std::move(shape)}; }

// What TakeRows, SumRows and the gradient of its weights read but for its first input.
template <typename T>
std::vector<TensorSpec> rows_and_order(const T& op, const TensorSpec& rows) {
  return {rows, i32({op.slots + op.rows * op.top})};
}

// Blocks of the operands in f32, where a library multiplies no narrower ones of sizes that are
// known when it runs alone.
std::int64_t expert_workspace(std::int64_t in, std::int64_t out, DType type) {
  if (size_of(type) >= 4) return 0;
  return 4 * (kExpertBlock + kExpertRows * (in + out));
}

template <typename T>
double expert_flops(const T& op) {
  return 2.0 * op.load * op.in * op.out;
}

template <typename T>
std::string choice_sizes(const T& op) {
  return text("rows=", op.rows, " width=", op.width, " top=", op.top, " slots=", op.slots);
}

template <typename T>
std::string expert_sizes(const T& op) {
  return text("slots=", op.slots, " in=", op.in, " out=", op.out, " experts=", op.experts,
              " load=", op.load);
}

}  // namespace

// Each of the largest is looked for in turn.
OpFacts facts(const Router& op, DType type) {
  return {.kind = "router",
          .inputs = {{type, {op.rows, op.experts}}},
          .outputs = {{f32({op.rows, op.top})}, {i32({op.rows, op.top})}},
          .flops = 1.0 * op.rows * op.top * (op.experts + 5)};
}

OpFacts facts(const RouterGrad& grad, DType type) {
  const Router& op = grad.forward;
  const TensorSpec logits{type, {op.rows, op.experts}};
  const TensorSpec weights = f32({op.rows, op.top});
  return {.kind = "router_grad",
          .inputs = {weights, logits, weights, i32({op.rows, op.top})},
          .outputs = {{.spec = logits}},
          .flops = 1.0 * op.rows * (8 * op.experts + 5 * op.top),
          .workspace_bytes = 4 * (op.rows / std::max<std::int64_t>(op.sequence, 1)) * op.experts};
}

OpFacts facts(const SortChoices& op, DType /*type*/) {
  return {.kind = "sort_choices",
          .inputs = {i32({op.rows, op.top})},
          .outputs = {{i32({op.slots() + op.rows * op.top})}, {i32({op.held + 1})}},
          .flops = 2.0 * op.rows * op.top * (op.held + 1)};
}

OpFacts facts(const TakeRows& op, DType type) {
  OpFacts all{.kind = "take_rows",
              .inputs = rows_and_order(op, {type, {op.rows, op.width}}),
              .outputs = {{{type, {op.slots, op.width}}}},
              .flops = op.weighted ? 1.0 * op.slots * op.width : 0.0};
  if (op.weighted) all.inputs.push_back(f32({op.rows, op.top}));
  return all;
}

OpFacts facts(const SumRows& op, DType type) {
  OpFacts all{.kind = "sum_rows",
              .inputs = rows_and_order(op, {type, {op.slots, op.width}}),
              .outputs = {{{type, {op.rows, op.width}}}},
              .flops = (op.weighted ? 2.0 : 1.0) * op.rows * op.top * op.width};
  if (op.weighted) all.inputs.push_back(f32({op.rows, op.top}));
  return all;
}

OpFacts facts(const SumRowsGradWeight& op, DType type) {
  OpFacts all{.kind = "sum_rows_grad_weight",
              .inputs = rows_and_order(op, {type, {op.slots, op.width}}),
              .outputs = {{f32({op.rows, op.top})}},
              .flops = 2.0 * op.rows * op.top * op.width};
  all.inputs.insert(all.inputs.begin(), {type, {op.rows, op.width}});
  return all;
}

OpFacts facts(const ExpertLinear& op, DType type) {
  return {.kind = "expert_linear",
          .inputs = {{type, {op.slots, op.in}},
                     {type, {op.experts * op.out, op.in}},
                     i32({op.experts + 1})},
          .outputs = {{{type, {op.slots, op.out}}}},
          .flops = expert_flops(op),
          .workspace_bytes = expert_workspace(op.in, op.out, type)};
}

OpFacts facts(const ExpertLinearGradInput& op, DType type) {
  return {.kind = "expert_linear_grad_input",
          .inputs = {{type, {op.slots, op.out}},
                     {type, {op.experts * op.out, op.in}},
                     i32({op.experts + 1})},
          .outputs = {{{type, {op.slots, op.in}}}},
          .flops = expert_flops(op),
          .workspace_bytes = expert_workspace(op.in, op.out, type)};
}

OpFacts facts(const ExpertLinearGradWeight& op, DType type) {
  const TensorSpec weights = f32({op.experts * op.out, op.in});
  return {.kind = "expert_linear_grad_weight",
          .inputs = {{type, {op.slots, op.out}},
                     {type, {op.slots, op.in}},
                     i32({op.experts + 1}),
                     weights},
          .outputs = {{.spec = weights, .updates = 3}},
          .flops = expert_flops(op),
          .workspace_bytes = expert_workspace(op.in, op.out, type)};
}

// `balance` changes what is computed, not how long it takes.
std::string sizes(const Router& op) {
  return text("rows=", op.rows, " experts=", op.experts, " top=", op.top,
              " sequence=", op.sequence);
}
std::string sizes(const RouterGrad& op) { return sizes(op.forward); }
std::string sizes(const SortChoices& op) {
  return text("rows=", op.rows, " top=", op.top, " first=", op.first, " held=", op.held);
}
std::string sizes(const TakeRows& op) {
  return choice_sizes(op) + (op.weighted ? " weighted" : "");
}
std::string sizes(const SumRows& op) { return choice_sizes(op) + (op.weighted ? " weighted" : ""); }
std::string sizes(const SumRowsGradWeight& op) { return choice_sizes(op); }
std::string sizes(const ExpertLinear& op) { return expert_sizes(op); }
std::string sizes(const ExpertLinearGradInput& op) { return expert_sizes(op); }
std::string sizes(const ExpertLinearGradWeight& op) { return expert_sizes(op); }

}  // namespace hethub
