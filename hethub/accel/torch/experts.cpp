#include <algorithm>
#include <tuple>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "hethub/accel/torch/ops.h"

namespace hethub::torch_backend {
namespace {

at::Tensor f32(const at::Tensor& tensor) { return tensor.to(at::kFloat); }
at::Tensor column(const at::Tensor& values) { return values.unsqueeze(1); }

// Where a rank's choices lie in `order`, as positions that may be followed, and which are there.
struct Places {
  at::Tensor at = {};
  at::Tensor here = {};
};

Places places_of(const at::Tensor& order, std::int64_t first, std::int64_t count) {
  const at::Tensor part = order.narrow(0, first, count);
  return {part.clamp_min(0).to(at::kLong), part.ge(0)};
}

// Calls each(expert, begin, rows) for every expert with slots; returns how many are used.
template <typename Each>
std::int64_t for_experts(const at::Tensor& starts, std::int64_t slots, const Each& each) {
  const at::Tensor host = starts.to(at::kCPU);
  const auto* start = host.data_ptr<std::int32_t>();
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert + 1 < host.numel(); ++expert) {
    const std::int64_t end = std::clamp<std::int64_t>(start[expert + 1], begin, slots);
    if (end > begin) each(expert, begin, end - begin);
    begin = end;
  }
  return begin;
}

// `made` is the width of y; `matrix` takes an expert's matrix as it is multiplied.
template <typename T, typename Matrix>
void multiply_rows(const T& op, Tensors& t, const Matrix& matrix) {
  const std::int64_t used = for_experts(
      t.in[2], op.slots, [&](std::int64_t expert, std::int64_t begin, std::int64_t rows) {
        const at::Tensor w = f32(matrix(t.in[1].narrow(0, expert * op.out, op.out)));
        const at::Tensor x = f32(t.in[0].narrow(0, begin, rows));
        t.out[0].narrow(0, begin, rows).copy_(at::mm(x, w));
      });
  t.out[0].narrow(0, used, op.slots - used).zero_();
}

}  // namespace

// The sort is stable, so that the earlier of equal logits comes first.
void route(const Router& op, Tensors& t) {
  const at::Tensor logits = f32(t.in[0]);
  const auto sorted = at::sort(logits, /*stable=*/true, /*dim=*/1, /*descending=*/true);
  t.out[0].copy_(at::softmax(std::get<0>(sorted).narrow(1, 0, op.top), 1));
  t.out[1].copy_(std::get<1>(sorted).narrow(1, 0, op.top));
}

void route(const RouterGrad& grad, Tensors& t) {
  const Router& op = grad.forward;
  const at::Tensor& weights = t.in[2];
  const at::Tensor choices = t.in[3].to(at::kLong);
  const at::Tensor mean = weights.mul(t.in[0]).sum(1, true);
  at::Tensor slopes = at::zeros({op.rows, op.experts}, weights.options());
  if (op.balance != 0) {
    const std::int64_t sequences = op.rows / op.sequence;
    const at::Tensor p = at::softmax(f32(t.in[1]), 1).view({sequences, op.sequence, op.experts});
    const at::Tensor ones = at::ones({sequences, op.sequence * op.top}, weights.options());
    const at::Tensor loads = at::zeros({sequences, op.experts}, weights.options())
                                 .scatter_add(1, choices.view({sequences, -1}), ones)
                                 .unsqueeze(1);
    const double factor =
        op.balance * static_cast<double>(op.experts) / static_cast<double>(op.sequence);
    const at::Tensor loaded = p.mul(loads).sum(2, true);
    slopes = p.mul(loads.sub(loaded)).mul_(factor).view({op.rows, op.experts});
  }
  slopes.scatter_add_(1, choices, weights.mul(t.in[0].sub(mean)));
  t.out[0].copy_(slopes);
}

// On the host: it is a count of integers.
void sort_choices(const SortChoices& op, Tensors& t) {
  const at::Tensor host = t.in[0].to(at::kCPU).contiguous();
  const auto* choices = host.data_ptr<std::int32_t>();
  const std::int64_t all = op.rows * op.top;
  at::Tensor order = at::full({op.slots() + all}, -1, host.options());
  at::Tensor starts = at::zeros({op.held + 1}, host.options());
  auto* source = order.data_ptr<std::int32_t>();
  auto* start = starts.data_ptr<std::int32_t>();
  std::int64_t next = 0;
  for (std::int64_t expert = 0; expert < op.held; ++expert) {
    for (std::int64_t choice = 0; choice < all && next < op.slots(); ++choice) {
      if (choices[choice] != op.first + expert) continue;
      source[op.slots() + choice] = static_cast<std::int32_t>(next);
      source[next++] = static_cast<std::int32_t>(choice);
    }
    start[expert + 1] = static_cast<std::int32_t>(next);
  }
  t.out[0].copy_(order);
  t.out[1].copy_(starts);
}

void take_rows(const TakeRows& op, Tensors& t) {
  const Places slots = places_of(t.in[1], 0, op.slots);
  at::Tensor rows = f32(t.in[0]).index_select(0, at::floor_divide(slots.at, op.top));
  if (op.weighted) rows.mul_(column(t.in[2].view({-1}).index_select(0, slots.at)));
  t.out[0].copy_(rows.masked_fill_(column(slots.here.logical_not()), 0));
}

void sum_rows(const SumRows& op, Tensors& t) {
  const Places choices = places_of(t.in[1], op.slots, op.rows * op.top);
  at::Tensor rows = f32(t.in[0]).index_select(0, choices.at);
  if (op.weighted) rows.mul_(column(t.in[2].view({-1})));
  rows.masked_fill_(column(choices.here.logical_not()), 0);
  t.out[0].copy_(rows.view({op.rows, op.top, op.width}).sum(1));
}

void sum_rows(const SumRowsGradWeight& op, Tensors& t) {
  const Places choices = places_of(t.in[2], op.slots, op.rows * op.top);
  const at::Tensor rows =
      f32(t.in[1]).index_select(0, choices.at).view({op.rows, op.top, op.width});
  const at::Tensor slopes = rows.mul(f32(t.in[0]).unsqueeze(1)).sum(2);
  t.out[0].copy_(slopes.mul_(choices.here.view({op.rows, op.top})));
}

void multiply_experts(const ExpertLinear& op, Tensors& t) {
  multiply_rows(op, t, [](const at::Tensor& w) { return w.t(); });
}

void multiply_experts(const ExpertLinearGradInput& op, Tensors& t) {
  multiply_rows(op, t, [](const at::Tensor& w) { return w; });
}

void multiply_experts(const ExpertLinearGradWeight& op, Tensors& t) {
  for_experts(t.in[2], op.slots, [&](std::int64_t expert, std::int64_t begin, std::int64_t rows) {
    t.out[0]
        .narrow(0, expert * op.out, op.out)
        .addmm_(f32(t.in[0].narrow(0, begin, rows)).t(), f32(t.in[1].narrow(0, begin, rows)));
  });
}

}  // namespace hethub::torch_backend
