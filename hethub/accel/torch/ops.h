#pragma once

#include <array>
#include <memory>

#include <ATen/core/Tensor.h>

#include "hethub/accel/backend.h"
#include "hethub/op/op.h"

namespace hethub::torch_backend {

/// The operands of an op as tensors, in the order and shape of its facts.
struct Tensors {
  std::array<at::Tensor, 8> in = {};
  std::array<at::Tensor, 4> out = {};
};

/// An op with its facts at hand.
class TorchOp final : public PreparedOp {
 public:
  /// Throws kUnsupported for a group op, an odd head_dim of rope, or a dtype but f32 and bf16.
  explicit TorchOp(const Op& op);

  const OpFacts& facts() const { return facts_; }
  const std::string& name() const { return op_.name; }
  void run(Tensors& tensors) const { run_(op_, tensors); }

 private:
  Op op_;
  OpFacts facts_;
  void (*run_)(const Op&, Tensors&);
};

/// Attention and its gradients in blocks of queries, so that scores take little memory. The other
/// ops are in ops.cpp.
void attend(const Attention& op, Tensors& tensors);
void attend(const AttentionGrad& op, Tensors& tensors);

/// Mixtures of experts. Products look at where each expert's slots begin, so they wait for the
/// device.
void route(const Router& op, Tensors& tensors);
void route(const RouterGrad& op, Tensors& tensors);
void sort_choices(const SortChoices& op, Tensors& tensors);
void take_rows(const TakeRows& op, Tensors& tensors);
void sum_rows(const SumRows& op, Tensors& tensors);
void sum_rows(const SumRowsGradWeight& op, Tensors& tensors);
void multiply_experts(const ExpertLinear& op, Tensors& tensors);
void multiply_experts(const ExpertLinearGradInput& op, Tensors& tensors);
void multiply_experts(const ExpertLinearGradWeight& op, Tensors& tensors);

/// The type of libtorch's tensors for a dtype of ours.
at::ScalarType scalar_type_of(DType type);

}  // namespace hethub::torch_backend
