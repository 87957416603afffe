#include "hethub/accel/gpu/ops.h"

#include <algorithm>
#include <cmath>

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/gpu/attention.h"
#include "hethub/accel/gpu/experts.h"
#include "hethub/accel/gpu/kernels.h"
#include "hethub/accel/gpu/runtime.h"
#include "hethub/base/error.h"

namespace hethub::gpu {
namespace {

// What an op is launched with.
struct Launch {
  void* stream = nullptr;
  Matrices* matrices = nullptr;
  const Operands& operands;

  template <typename T = float>
  T* in(std::size_t index) const {
    return static_cast<T*>(operands.in[index]);
  }
  template <typename T = float>
  T* out(std::size_t index) const {
    return static_cast<T*>(operands.out[index]);
  }

  // A thread for each of `count` items.
  template <typename Kernel, typename... Arguments>
  void each(long count, Kernel kernel, Arguments... arguments) const {
    launch_apart(stream, (count + kThreads - 1) / kThreads, kThreads, kernel, arguments...);
  }
  // A block for each of `count` rows.
  template <typename Kernel, typename... Arguments>
  void rows(long count, Kernel kernel, Arguments... arguments) const {
    launch_together(stream, count, kRowThreads, kernel, arguments...);
  }
  // A block for each vector of a head.
  template <typename Kernel, typename... Arguments>
  void vectors(long count, Kernel kernel, Arguments... arguments) const {
    launch_together(stream, count, kKeys, kernel, arguments...);
  }
};

void multiply(const Launch& with, const Product& p) {
  if (with.matrices != nullptr) {
    with.matrices->multiply(p);
    return;
  }
  const long tiles = (p.m + kTile - 1) / kTile * ((p.n + kTile - 1) / kTile);
  const MatrixSizes sizes{p.m, p.k, p.n, p.a_transposed, p.b_transposed, p.accumulate};
  launch_together(with.stream, tiles, kTile * kTile, matrix_product, p.a, p.b, p.c, sizes);
}

// One overload per kind of op.

void run(const Linear& op, const Launch& with) {
  if (op.bias) {
    with.each(op.rows * op.out, spread_bias, with.in(2), with.out(0), op.rows, op.out);
  }
  multiply(with, {.m = op.rows,
                  .k = op.in,
                  .n = op.out,
                  .b_transposed = true,
                  .accumulate = op.bias,
                  .a = with.in(0),
                  .b = with.in(1),
                  .c = with.out(0)});
}

void run(const LinearGradInput& op, const Launch& with) {
  multiply(
      with,
      {.m = op.rows, .k = op.out, .n = op.in, .a = with.in(0), .b = with.in(1), .c = with.out(0)});
}

void run(const LinearGradWeight& op, const Launch& with) {
  multiply(with, {.m = op.out,
                  .k = op.rows,
                  .n = op.in,
                  .a_transposed = true,
                  .accumulate = true,
                  .a = with.in(0),
                  .b = with.in(1),
                  .c = with.out(0)});
}

void run(const BiasGrad& op, const Launch& with) {
  const float* none = nullptr;
  with.each(op.width, sum_rows, with.in(0), none, none, with.out(0), op.rows, op.width);
}

void run(const Embedding& op, const Launch& with) {
  with.each(op.rows * op.width, embedding, with.in<int>(0), with.in(1), with.out(0), op.rows,
            op.vocab, op.width, op.first, op.whole());
}

void run(const EmbeddingGrad& op, const Launch& with) {
  with.each(op.width, embedding_grad, with.in<int>(0), with.in(1), with.out(0), op.rows, op.vocab,
            op.width, op.first);
}

void run(const RmsNorm& op, const Launch& with) {
  with.rows(op.rows, rms_norm, with.in(0), with.in(1), with.out(0), with.out(1), op.width,
            static_cast<float>(op.eps));
}

void run(const RmsNormGradInput& op, const Launch& with) {
  with.rows(op.rows, rms_norm_grad_input, with.in(0), with.in(1), with.in(2), with.in(3),
            with.out(0), op.width);
}

void run(const RmsNormGradGain& op, const Launch& with) {
  with.each(op.width, sum_rows, with.in(0), with.in(1), with.in(2), with.out(0), op.rows, op.width);
}

void run(const LayerNorm& op, const Launch& with) {
  with.rows(op.rows, layer_norm, with.in(0), with.in(1), with.in(2), with.out(0), with.out(1),
            with.out(2), op.width, static_cast<float>(op.eps));
}

void run(const LayerNormGradInput& op, const Launch& with) {
  with.rows(op.rows, layer_norm_grad_input, with.in(0), with.in(1), with.in(2), with.in(3),
            with.in(4), with.out(0), op.width);
}

void run(const LayerNormGradGain& op, const Launch& with) {
  with.each(op.width, layer_norm_grad_gain, with.in(0), with.in(1), with.in(2), with.in(3),
            with.out(0), op.rows, op.width);
}

void run(const AddBias& op, const Launch& with) {
  const long count = op.rows * op.width;
  with.each(count, add_bias, with.in(0), with.in(1), with.out(0), count, op.width);
}

void run(const Rope& op, const Launch& with) {
  with.each(op.rows * op.heads * op.head_dim / 2, rope, with.in(0), with.in<int>(1), with.in(2),
            with.out(0), op.rows, op.heads, op.head_dim, op.table_rows, op.inverse ? -1.0F : 1.0F);
}

AttentionSizes sizes_of(const Attention& op, const int* starts) {
  return {op.batch,
          op.seq,
          op.heads,
          op.kv_heads,
          op.head_dim,
          op.window,
          op.documents ? starts : nullptr,
          static_cast<float>(1 / std::sqrt(static_cast<double>(op.head_dim)))};
}

void run(const Attention& op, const Launch& with) {
  with.vectors(op.batch * op.heads * op.seq, attention, with.in(0), with.in(1), with.in(2),
               with.out(0), with.out(1), sizes_of(op, with.in<int>(3)));
}

void run(const AttentionGrad& grad, const Launch& with) {
  const Attention& op = grad.forward;
  const AttentionSizes sizes = sizes_of(op, with.in<int>(6));
  auto* delta = static_cast<float*>(with.operands.workspace);
  const long queries = op.batch * op.heads * op.seq;
  with.each(queries, attention_delta, with.in(0), with.in(4), delta, sizes);
  const AttentionInputs in{with.in(0), with.in(1), with.in(2), with.in(3), with.in(5), delta};
  with.vectors(queries, attention_grad_query, in, with.out(0), sizes);
  with.vectors(op.batch * op.kv_heads * op.seq, attention_grad_key, in, with.out(1), with.out(2),
               sizes);
}

void run(const SiluMul& op, const Launch& with) {
  with.each(op.rows * op.width, silu_mul, with.in(0), with.in(1), with.out(0), op.rows * op.width);
}

void run(const SiluMulGrad& op, const Launch& with) {
  with.each(op.rows * op.width, silu_mul_grad, with.in(0), with.in(1), with.in(2), with.out(0),
            with.out(1), op.rows * op.width);
}

void run(const Gelu& op, const Launch& with) {
  with.each(op.rows * op.width, gelu, with.in(0), with.out(0), op.rows * op.width);
}

void run(const GeluGrad& op, const Launch& with) {
  with.each(op.rows * op.width, gelu_grad, with.in(0), with.in(1), with.out(0), op.rows * op.width);
}

void run(const Router& op, const Launch& with) {
  with.each(op.rows, route, with.in(0), with.out(0), with.out<int>(1), op.rows, op.experts, op.top);
}

void run(const RouterGrad& grad, const Launch& with) {
  const Router& op = grad.forward;
  const double factor =
      op.balance * static_cast<double>(op.experts) / static_cast<double>(op.sequence);
  auto* loads = static_cast<float*>(with.operands.workspace);
  if (op.balance != 0) {
    const long counts = op.rows / op.sequence * op.experts;
    with.each(counts, expert_loads, with.in<int>(3), loads, counts, op.experts,
              op.sequence * op.top);
  }
  const RouteSizes size{op.rows, op.experts, op.top, op.sequence, static_cast<float>(factor)};
  with.each(op.rows, route_grad, with.in(0), with.in(1), with.in(2), with.in<int>(3), loads,
            with.out(0), size);
}

void run(const SortChoices& op, const Launch& with) {
  with.each(op.held + 1, sort_choices, with.in<int>(0), with.out<int>(0), with.out<int>(1),
            op.rows * op.top, op.first, op.held, op.slots());
}

void run(const TakeRows& op, const Launch& with) {
  const long count = op.slots * op.width;
  const float* weights = op.weighted ? with.in(2) : nullptr;
  with.each(count, take_rows, with.in(0), with.in<int>(1), weights, with.out(0), count, op.width,
            op.top);
}

void run(const SumRows& op, const Launch& with) {
  const long count = op.rows * op.width;
  const float* weights = op.weighted ? with.in(2) : nullptr;
  with.each(count, sum_rows_of_choices, with.in(0), with.in<int>(1) + op.slots, weights,
            with.out(0), count, op.width, op.top);
}

void run(const SumRowsGradWeight& op, const Launch& with) {
  with.rows(op.rows * op.top, sum_rows_grad_weight, with.in(0), with.in(1),
            with.in<int>(2) + op.slots, with.out(0), op.width, op.top);
}

// Tiles of all slots, and one more for each expert, whose last one may be part of a tile.
void multiply_experts(const ExpertSizes& size, const Launch& with) {
  with.each(size.slots * size.made, fill, with.out(0), 0.0F, size.slots * size.made);
  const long tiles = size.slots / kTile + size.experts;
  launch_together(with.stream, tiles * ((size.made + kTile - 1) / kTile), kTile * kTile,
                  expert_product, with.in(0), with.in(1), with.in<int>(2), with.out(0), size);
}

void run(const ExpertLinear& op, const Launch& with) {
  multiply_experts({op.slots, op.in, op.out, op.experts, true}, with);
}

void run(const ExpertLinearGradInput& op, const Launch& with) {
  multiply_experts({op.slots, op.out, op.in, op.experts, false}, with);
}

void run(const ExpertLinearGradWeight& op, const Launch& with) {
  const long tiles = (op.out + kTile - 1) / kTile * ((op.in + kTile - 1) / kTile);
  launch_together(with.stream, op.experts * tiles, kTile * kTile, expert_weight_product, with.in(0),
                  with.in(1), with.in<int>(2), with.out(0), op.slots, op.in, op.out);
}

void run(const Add& op, const Launch& with) {
  with.each(op.count, add, with.in(0), with.in(1), with.out(0), op.count);
}

void run(const Accumulate& op, const Launch& with) {
  for (long term = 0; term < op.terms; ++term) {
    float* const x = with.in(1) + term * op.stride;
    with.each(op.count, add, with.out(0), x, with.out(0), op.count);
  }
}

void run(const Convert& op, const Launch& with) {
  with.each(op.count, convert, with.in(0), with.out(0), op.count);
}

void run(const Fill& op, const Launch& with) {
  with.each(op.count, fill, with.out(0), static_cast<float>(op.value), op.count);
}

void run(const CrossEntropy& op, const Launch& with) {
  with.rows(op.rows, cross_entropy, with.in(0), with.in<int>(1), with.out(0), with.out(1),
            op.vocab);
}

void run(const LogSumExp& op, const Launch& with) {
  const int* no_labels = nullptr;
  float* no_losses = nullptr;
  with.rows(op.rows, cross_entropy, with.in(0), no_labels, no_losses, with.out(0), op.width);
}

void run(const CrossEntropyPart& op, const Launch& with) {
  with.each(op.rows, cross_entropy_part, with.in(0), with.in<int>(1), with.in(2), with.out(0),
            with.out(1), op.rows, op.vocab, op.first, op.of, op.parts);
}

void run(const CrossEntropyGrad& op, const Launch& with) {
  with.each(op.rows * op.vocab, cross_entropy_grad, with.in(0), with.in<int>(1), with.in(2),
            with.out(0), op.rows, op.vocab, op.first, static_cast<float>(op.z));
}

void run(const SumSquares& op, const Launch& with) {
  constexpr long kMostParts = 4096 / sizeof(double);  // what the workspace holds
  const long parts = std::min<long>(kMostParts, (op.count + kThreads - 1) / kThreads);
  auto* sums = static_cast<double*>(with.operands.workspace);
  launch_together(with.stream, parts, kThreads, sum_squares_parts, with.in(0), sums, op.count,
                  parts);
  launch_together(with.stream, 1L, kThreads, sum_parts, sums, with.out(0), parts);
}

void run(const AdamW& op, const Launch& with) {
  with.each(op.count, adamw, with.out(0), with.out(1), with.out(2), with.in(3), with.in(4),
            op.count, op.decay);
}

template <typename Body>
class KernelOp final : public GpuOp {
 public:
  KernelOp(std::string name, const Body& body) : name_(std::move(name)), body_(body) {}

  void run(void* stream, Matrices* matrices, const Operands& operands) const override {
    gpu::run(body_, Launch{stream, matrices, operands});
    check_launch(name_);
  }

 private:
  std::string name_;
  Body body_;
};

template <typename Body>
void require_known(const Op& /*op*/, const Body& /*body*/) {}
void require_known(const Op& op, const Rope& body) {
  if (body.head_dim % 2 == 0) return;
  refuse_op(kVendor, op, text("head_dim ", body.head_dim), "an even one",
            "choose an even head_dim");
}
void require_known(const Op& op, const Accumulate& body) {
  if (body.reduction == Reduction::kSum && body.divisor == 1) return;
  refuse_op(kVendor, op, text("the reduction ", sizes_text(op)), "a sum",
            "sum on this kind, or choose another kind for this reduction");
}
void require_known(const Op& op, const Attention& body) {
  if (body.head_dim <= kMostHeadDim) return;
  refuse_op(kVendor, op, text("head_dim ", body.head_dim), text("at most ", kMostHeadDim),
            "choose more heads of a smaller head_dim");
}
void require_known(const Op& op, const AttentionGrad& body) { require_known(op, body.forward); }

std::unique_ptr<GpuOp> make(const Op& op, const GroupStart& /*body*/) {
  refuse_op(kVendor, op, "a group op", "an op of one device", "group ops are run by the executor");
}
std::unique_ptr<GpuOp> make(const Op& op, const GroupWait& /*body*/) {
  refuse_op(kVendor, op, "a group op", "an op of one device", "group ops are run by the executor");
}
template <typename Body>
std::unique_ptr<GpuOp> make(const Op& op, const Body& body) {
  require_known(op, body);
  return std::make_unique<KernelOp<Body>>(op.name, body);
}

}  // namespace

std::unique_ptr<GpuOp> prepare_gpu_op(const Op& op) {
  if (op.dtype != DType::kF32) {
    refuse_op(kVendor, op, text("dtype ", name_of(op.dtype)), "f32", "set the plan's dtype to f32");
  }
  return std::visit([&](const auto& body) { return make(op, body); }, op.body);
}

}  // namespace hethub::gpu
