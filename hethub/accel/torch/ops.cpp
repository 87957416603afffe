#include "hethub/accel/torch/ops.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "hethub/accel/backend_tools.h"
#include "hethub/base/error.h"

namespace hethub::torch_backend {
namespace {

// Of f32 this is the tensor itself.
at::Tensor f32(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

bool is_f32(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat; }

// One value for each row, to be spread over the row.
at::Tensor column(const at::Tensor& values) { return values.unsqueeze(1); }

// Whether libtorch adds the products up in 16 bits: of narrow vectors it does.
bool adds_narrowly(const at::Tensor& a, const at::Tensor& b) {
  return !is_f32(a) && (a.size(0) == 1 || a.size(1) == 1 || b.size(1) == 1);
}

void compute(const Linear& op, Tensors& t) {
  const at::Tensor w = t.in[1].t();
  if (adds_narrowly(t.in[0], w)) {
    at::Tensor y = at::mm(f32(t.in[0]), f32(w));
    if (op.bias) y.add_(t.in[2]);
    t.out[0].copy_(y);
  } else if (op.bias) {
    at::addmm_out(t.out[0], t.in[2], t.in[0], w);
  } else {
    at::mm_out(t.out[0], t.in[0], w);
  }
}

void compute(const LinearGradInput& /*op*/, Tensors& t) {
  if (adds_narrowly(t.in[0], t.in[1])) {
    t.out[0].copy_(at::mm(f32(t.in[0]), f32(t.in[1])));
  } else {
    at::mm_out(t.out[0], t.in[0], t.in[1]);
  }
}

void compute(const LinearGradWeight& /*op*/, Tensors& t) {
  t.out[0].addmm_(f32(t.in[0]).t(), f32(t.in[1]));
}

void compute(const BiasGrad& /*op*/, Tensors& t) {
  t.out[0].add_(t.in[0].sum(0, false, at::kFloat));
}

// Where `values` are in first .. first + count - 1, which of them are there, and their positions
// with 0 in place of the others. On the CPU a value outside the whole is refused; elsewhere looking
// would wait for the device.
struct Part {
  at::Tensor here = {};
  at::Tensor at = {};
};

Part part_of(const at::Tensor& values, std::int64_t first, std::int64_t count, std::int64_t whole) {
  if (values.is_cpu()) {
    const bool outside = values.lt(0).logical_or_(values.ge(whole)).any().item<bool>();
    require(!outside, [&] {
      return ErrorParts{.what = "torch: ids or labels",
                        .found = "one outside the vocabulary",
                        .expected = text("0 to ", whole - 1),
                        .fix = "see whether the data were made with this model's vocabulary"};
    });
  }
  const at::Tensor at = values.sub(first);
  const at::Tensor here = at.ge(0).logical_and_(at.lt(count));
  return {here, at.mul(here).to(at::kLong)};
}

void compute(const Embedding& op, Tensors& t) {
  const Part ids = part_of(t.in[0], op.first, op.vocab, op.whole());
  at::index_select_out(t.out[0], t.in[1], 0, ids.at);
  if (op.of > 0) t.out[0].masked_fill_(column(ids.here).logical_not(), 0);
}

// On the CPU index_add_ takes the rows in order; elsewhere it adds in any order, and the sorting
// index_put_ does not.
void compute(const EmbeddingGrad& op, Tensors& t) {
  const Part ids = part_of(t.in[0], op.first, op.vocab, op.whole());
  at::Tensor dy = f32(t.in[1]);
  if (op.of > 0) dy = dy.masked_fill(column(ids.here).logical_not(), 0);
  if (t.out[0].is_cpu()) {
    t.out[0].index_add_(0, ids.at, dy);
  } else {
    t.out[0].index_put_({ids.at}, dy, true);
  }
}

void compute(const RmsNorm& op, Tensors& t) {
  const at::Tensor x = f32(t.in[0]);
  at::mean_out(t.out[1], x.square(), 1).add_(op.eps).rsqrt_();
  if (is_f32(t.out[0])) {
    at::mul_out(t.out[0], x, column(t.out[1])).mul_(t.in[1]);
  } else {
    t.out[0].copy_(x.mul(column(t.out[1])).mul_(t.in[1]));
  }
}

void compute(const RmsNormGradInput& /*op*/, Tensors& t) {
  const at::Tensor x = f32(t.in[1]);
  const at::Tensor& rstd = t.in[3];
  at::Tensor g = f32(t.in[0]).mul(t.in[2]);
  const at::Tensor factor = g.mul(x).mean(1).mul_(rstd).mul_(rstd);
  t.out[0].copy_(g.sub_(x.mul(column(factor))).mul_(column(rstd)));
}

void compute(const RmsNormGradGain& /*op*/, Tensors& t) {
  t.out[0].add_(f32(t.in[0]).mul(t.in[1]).mul_(column(t.in[2])).sum(0));
}

void compute(const LayerNorm& op, Tensors& t) {
  const at::Tensor x = f32(t.in[0]);
  at::mean_out(t.out[1], x, 1);
  const at::Tensor centred = x.sub(column(t.out[1]));
  at::mean_out(t.out[2], centred.square(), 1).add_(op.eps).rsqrt_();
  t.out[0].copy_(centred.mul(column(t.out[2])).mul_(t.in[1]).add_(t.in[2]));
}

void compute(const LayerNormGradInput& /*op*/, Tensors& t) {
  const at::Tensor rstd = column(t.in[4]);
  const at::Tensor normed = f32(t.in[1]).sub(column(t.in[3])).mul_(rstd);
  const at::Tensor g = f32(t.in[0]).mul(t.in[2]);
  const at::Tensor pull = column(g.mul(normed).mean(1));
  t.out[0].copy_(g.sub(column(g.mean(1))).sub_(normed.mul(pull)).mul_(rstd));
}

void compute(const LayerNormGradGain& /*op*/, Tensors& t) {
  const at::Tensor centred = f32(t.in[1]).sub(column(t.in[2]));
  t.out[0].add_(centred.mul_(t.in[0]).mul_(column(t.in[3])).sum(0));
}

void compute(const AddBias& /*op*/, Tensors& t) { at::add_out(t.out[0], t.in[0], t.in[1]); }

void compute(const Rope& op, Tensors& t) {
  const std::int64_t half = op.head_dim / 2;
  const at::Tensor x = f32(t.in[0]).view({op.rows, op.heads, 2, half});
  const at::Tensor turns = t.in[2].index_select(0, t.in[1]).view({op.rows, 1, 2, half});
  const at::Tensor a = x.select(2, 0);
  const at::Tensor b = x.select(2, 1);
  const at::Tensor c = turns.select(2, 0);
  const at::Tensor s = op.inverse ? turns.select(2, 1).neg() : turns.select(2, 1);
  const at::Tensor first = a.mul(c).sub_(b.mul(s));
  const at::Tensor second = b.mul(c).add_(a.mul(s));
  const at::Tensor y = t.out[0].view({op.rows, op.heads, 2, half});
  y.select(2, 0).copy_(first);
  y.select(2, 1).copy_(second);
}

void compute(const SiluMul& /*op*/, Tensors& t) {
  const at::Tensor gate = f32(t.in[0]);
  t.out[0].copy_(at::sigmoid(gate).mul_(gate).mul_(t.in[1]));
}

void compute(const SiluMulGrad& /*op*/, Tensors& t) {
  const at::Tensor dy = f32(t.in[0]);
  const at::Tensor gate = f32(t.in[1]);
  const at::Tensor s = at::sigmoid(gate);
  const at::Tensor slope = s.neg().add_(1).mul_(gate).add_(1).mul_(s);
  const at::Tensor dgate = slope.mul_(dy).mul_(t.in[2]);
  const at::Tensor dup = dy.mul(gate).mul_(s);
  t.out[0].copy_(dgate);
  t.out[1].copy_(dup);
}

// GELU's approximation: x · sigmoid(twice the argument of its tanh).
constexpr double kGeluSlope = 1.5957691216057308;  // 2 · sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

at::Tensor gelu_gate(const at::Tensor& x) {
  return x.square().mul_(kGeluCubic).add_(1).mul_(x).mul_(kGeluSlope).sigmoid_();
}

void compute(const Gelu& /*op*/, Tensors& t) {
  const at::Tensor x = f32(t.in[0]);
  t.out[0].copy_(gelu_gate(x).mul_(x));
}

void compute(const GeluGrad& /*op*/, Tensors& t) {
  const at::Tensor x = f32(t.in[1]);
  const at::Tensor s = gelu_gate(x);
  const at::Tensor slope = x.square().mul_(3 * kGeluCubic).add_(1).mul_(kGeluSlope);
  const at::Tensor turn = slope.mul_(x).mul_(s).mul_(s.neg().add_(1));
  t.out[0].copy_(turn.add_(s).mul_(t.in[0]));
}

void compute(const Add& /*op*/, Tensors& t) { at::add_out(t.out[0], t.in[0], t.in[1]); }

at::Tensor combined(Reduction reduction, const at::Tensor& a, const at::Tensor& b) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kAvg:
      return a.add(b);
    case Reduction::kMin:
      return at::minimum(a, b);
    case Reduction::kMax:
      return at::maximum(a, b);
    case Reduction::kProd:
      return a.mul(b);
  }
  return a;
}

void compute(const Accumulate& op, Tensors& t) {
  at::Tensor sum = f32(t.out[0]);
  for (std::int64_t term = 0; term < op.terms; ++term) {
    sum = combined(op.reduction, sum, f32(t.in[1].narrow(0, term * op.stride, op.count)));
  }
  if (op.divisor > 1) sum = sum.mul(1.0F / static_cast<float>(op.divisor));
  t.out[0].copy_(sum);
}

void compute(const Convert& /*op*/, Tensors& t) { t.out[0].copy_(t.in[0]); }

void compute(const Fill& op, Tensors& t) { t.out[0].fill_(op.value); }

// 1 where a label counts; 1 where it is also one of the columns here; its column, as a column.
struct Labels {
  at::Tensor counted = {};
  at::Tensor here = {};
  at::Tensor at = {};
};

Labels labels_of(const at::Tensor& labels, std::int64_t first, std::int64_t count,
                 std::int64_t whole) {
  constexpr int kNotCounted = -100;
  const at::Tensor counted = labels.ne(kNotCounted);
  const Part part = part_of(labels.mul(counted), first, count, whole);
  return {counted, part.here.logical_and(counted), column(part.at)};
}

void compute(const CrossEntropy& op, Tensors& t) {
  const at::Tensor logits = f32(t.in[0]);
  const Labels labels = labels_of(t.in[1], 0, op.vocab, op.vocab);
  at::logsumexp_out(t.out[1], logits, 1);
  at::sub_out(t.out[0], t.out[1], logits.gather(1, labels.at).squeeze(1)).mul_(labels.here);
}

void compute(const LogSumExp& /*op*/, Tensors& t) { at::logsumexp_out(t.out[0], f32(t.in[0]), 1); }

void compute(const CrossEntropyPart& op, Tensors& t) {
  const Labels labels = labels_of(t.in[1], op.first, op.vocab, op.of);
  at::logsumexp_out(t.out[1], t.in[2], 0);
  const at::Tensor own = f32(t.in[0]).gather(1, labels.at).squeeze(1);
  at::sub_out(t.out[0], t.out[1], own).mul_(labels.here);
}

void compute(const CrossEntropyGrad& op, Tensors& t) {
  const Labels labels = labels_of(t.in[1], op.first, op.vocab, op.whole());
  at::Tensor logits = f32(t.in[0]);
  at::Tensor slope =
      is_f32(t.out[0]) ? at::sub_out(t.out[0], logits, column(t.in[2])) : logits - column(t.in[2]);
  slope.exp_();
  if (op.z != 0) slope.mul_(column(t.in[2].mul(2 * op.z).add_(1)));
  slope.scatter_add_(1, labels.at, column(labels.here).to(at::kFloat).neg());
  slope.mul_(column(labels.counted));
  if (!slope.is_same(t.out[0])) t.out[0].copy_(slope);
}

// Sums of blocks, and their sum: no part is long enough to lose digits.
void compute(const SumSquares& op, Tensors& t) {
  constexpr std::int64_t kBlock = 1024;
  const at::Tensor squares = f32(t.in[0]).square();
  const std::int64_t blocks = op.count / kBlock;
  const at::Tensor whole = squares.narrow(0, 0, blocks * kBlock).view({blocks, kBlock}).sum(1);
  const at::Tensor rest = squares.narrow(0, blocks * kBlock, op.count - blocks * kBlock).sum();
  t.out[0].copy_(whole.sum().add_(rest).view({1}));
}

void compute(const AdamW& op, Tensors& t) {
  const auto scalar = [&](AdamWScalar which) { return t.in[4].select(0, static_cast<int>(which)); };
  const at::Tensor rate = scalar(AdamWScalar::kLearningRate);
  const at::Tensor beta1 = scalar(AdamWScalar::kBeta1);
  const at::Tensor beta2 = scalar(AdamWScalar::kBeta2);
  const at::Tensor& p = t.out[0];
  const at::Tensor& m = t.out[1];
  const at::Tensor& v = t.out[2];
  const at::Tensor g = t.in[3].mul(scalar(AdamWScalar::kGradientScale));
  m.mul_(beta1).addcmul_(g, 1 - beta1);
  v.mul_(beta2).addcmul_(g.square(), 1 - beta2);
  if (op.decay) p.sub_(p.mul(rate * scalar(AdamWScalar::kWeightDecay)));
  const at::Tensor root = v.div(scalar(AdamWScalar::kBiasCorrection2)).sqrt_();
  const at::Tensor step = m.div(scalar(AdamWScalar::kBiasCorrection1));
  p.sub_(step.mul_(rate).div_(root.add_(scalar(AdamWScalar::kEpsilon))));
}

void compute(const Router& op, Tensors& t) { route(op, t); }
void compute(const RouterGrad& op, Tensors& t) { route(op, t); }
void compute(const SortChoices& op, Tensors& t) { sort_choices(op, t); }
void compute(const TakeRows& op, Tensors& t) { take_rows(op, t); }
void compute(const SumRows& op, Tensors& t) { sum_rows(op, t); }
void compute(const SumRowsGradWeight& op, Tensors& t) { sum_rows(op, t); }
void compute(const ExpertLinear& op, Tensors& t) { multiply_experts(op, t); }
void compute(const ExpertLinearGradInput& op, Tensors& t) { multiply_experts(op, t); }
void compute(const ExpertLinearGradWeight& op, Tensors& t) { multiply_experts(op, t); }
void compute(const Attention& op, Tensors& t) { attend(op, t); }
void compute(const AttentionGrad& op, Tensors& t) { attend(op, t); }

template <typename Body>
void require_known(const Op& /*op*/, const Body& /*body*/) {}
void require_known(const Op& op, const Rope& body) {
  if (body.head_dim % 2 == 0) return;
  refuse_op("torch", op, text("head_dim ", body.head_dim), "an even one",
            "choose an even head_dim");
}

// The computation of an op of this type, or null for what is the communicator's.
template <typename Body>
auto runner(const Body& /*body*/) -> void (*)(const Op&, Tensors&) {
  if constexpr (requires(const Body& op, Tensors& t) { compute(op, t); }) {
    return [](const Op& op, Tensors& tensors) { compute(std::get<Body>(op.body), tensors); };
  } else {
    return nullptr;
  }
}

}  // namespace

TorchOp::TorchOp(const Op& op)
    : op_(op),
      facts_(facts_of(op)),
      run_(std::visit([](const auto& body) { return runner(body); }, op.body)) {
  if (run_ == nullptr) {
    refuse_op("torch", op, "a group op", "an op of one device",
              "group ops are run by the executor");
  }
  if (op.dtype != DType::kF32 && op.dtype != DType::kBf16) {
    refuse_op("torch", op, text("dtype ", name_of(op.dtype)), "f32 or bf16",
              "set the plan's dtype to f32");
  }
  std::visit([&](const auto& body) { require_known(op, body); }, op.body);
}

at::ScalarType scalar_type_of(DType type) {
  switch (type) {
    case DType::kF64:
      return at::kDouble;
    case DType::kF32:
      return at::kFloat;
    case DType::kF16:
      return at::kHalf;
    case DType::kBf16:
      return at::kBFloat16;
    case DType::kI64:
      return at::kLong;
    case DType::kI32:
      return at::kInt;
    case DType::kI8:
      return at::kChar;
    case DType::kU8:
      return at::kByte;
  }
  return at::kByte;
}

}  // namespace hethub::torch_backend
