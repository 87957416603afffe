#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>

#include "hethub/accel/torch/ops.h"

namespace hethub::torch_backend {
namespace {

constexpr std::int64_t kBlock = 256;  // queries at once

// Queries [from, to) of one sequence and the keys [low, to) that they can see.
struct Block {
  std::int64_t batch = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t low = 0;

  std::int64_t queries() const { return to - from; }
  std::int64_t keys() const { return to - low; }
};

// Calls `work` for each block. Any positions before `low` are out of every window.
template <typename Work>
void each_block(const Attention& op, std::int64_t batch, Work&& work) {
  for (std::int64_t from = 0; from < op.seq; from += kBlock) {
    const std::int64_t low = op.window > 0 ? std::max<std::int64_t>(0, from - op.window + 1) : 0;
    work(Block{batch, from, std::min(op.seq, from + kBlock), low});
  }
}

std::int64_t group_of(const Attention& op) { return op.heads / op.kv_heads; }

// [batch·seq, heads·head_dim] -> [kv_heads, group · queries, head_dim] of the block.
at::Tensor query_rows(const Attention& op, const Block& block, const at::Tensor& tensor) {
  return tensor.to(at::kFloat)
      .view({op.batch, op.seq, op.kv_heads, group_of(op), op.head_dim})
      .select(0, block.batch)
      .slice(0, block.from, block.to)
      .permute({1, 2, 0, 3})
      .reshape({op.kv_heads, group_of(op) * block.queries(), op.head_dim});
}

// [batch·seq, kv_heads·head_dim] -> [kv_heads, keys, head_dim] of the block.
at::Tensor key_rows(const Attention& op, const Block& block, const at::Tensor& tensor) {
  return tensor.to(at::kFloat)
      .view({op.batch, op.seq, op.kv_heads, op.head_dim})
      .select(0, block.batch)
      .slice(0, block.low, block.to)
      .transpose(0, 1);
}

// Puts query_rows() back to where they came from.
void put_query_rows(const Attention& op, const Block& block, const at::Tensor& rows,
                    const at::Tensor& tensor) {
  tensor.view({op.batch, op.seq, op.kv_heads, group_of(op), op.head_dim})
      .select(0, block.batch)
      .slice(0, block.from, block.to)
      .copy_(rows.view({op.kv_heads, group_of(op), block.queries(), op.head_dim})
                 .permute({2, 0, 1, 3}));
}

// lse[batch, heads, seq] of the block's queries, as [kv_heads, group, queries].
at::Tensor lse_of(const Attention& op, const Block& block, const at::Tensor& lse) {
  return lse.view({op.batch, op.kv_heads, group_of(op), op.seq})
      .select(0, block.batch)
      .slice(2, block.from, block.to);
}

// Whether a query [queries, 1] must not see a key [1, keys].
at::Tensor hidden(const Attention& op, const Block& block, const at::Tensor& starts,
                  const at::TensorOptions& options) {
  const auto positions = options.dtype(at::kInt);
  const at::Tensor query = at::arange(block.from, block.to, positions).unsqueeze(1);
  const at::Tensor key = at::arange(block.low, block.to, positions).unsqueeze(0);
  at::Tensor hidden = key.gt(query);
  if (op.window > 0) hidden = hidden.logical_or_(key.le(query.sub(op.window)));
  if (op.documents) {
    const at::Tensor start =
        starts.view({op.batch, op.seq}).select(0, block.batch).slice(0, block.from, block.to);
    hidden = hidden.logical_or_(key.lt(start.unsqueeze(1)));
  }
  return hidden;
}

// The scaled scores [kv_heads, group, queries, keys]; -infinity where the mask hides.
at::Tensor scores_of(const Attention& op, const Block& block, const at::Tensor& q,
                     const at::Tensor& k, const at::Tensor& starts) {
  const double scale = 1 / std::sqrt(static_cast<double>(op.head_dim));
  at::Tensor scores = at::bmm(q, k.transpose(1, 2)).mul_(scale);
  return scores.view({op.kv_heads, group_of(op), block.queries(), block.keys()})
      .masked_fill_(hidden(op, block, starts, q.options()), -INFINITY);
}

}  // namespace

void attend(const Attention& op, Tensors& t) {
  for (std::int64_t batch = 0; batch < op.batch; ++batch) {
    each_block(op, batch, [&](const Block& block) {
      const at::Tensor q = query_rows(op, block, t.in[0]);
      const at::Tensor k = key_rows(op, block, t.in[1]);
      const at::Tensor v = key_rows(op, block, t.in[2]);
      at::Tensor p = scores_of(op, block, q, k, t.in[3]);
      const at::Tensor lse = at::logsumexp(p, 3);
      lse_of(op, block, t.out[1]).copy_(lse);
      p.sub_(lse.unsqueeze(3)).exp_();
      put_query_rows(op, block, at::bmm(p.view({op.kv_heads, -1, block.keys()}), v), t.out[0]);
    });
  }
}

void attend(const AttentionGrad& grad, Tensors& t) {
  const Attention& op = grad.forward;
  const double scale = 1 / std::sqrt(static_cast<double>(op.head_dim));
  for (std::int64_t batch = 0; batch < op.batch; ++batch) {
    const at::Tensor dk = at::zeros({op.kv_heads, op.seq, op.head_dim}, t.in[5].options());
    const at::Tensor dv = at::zeros_like(dk);
    each_block(op, batch, [&](const Block& block) {
      const at::Tensor dy = query_rows(op, block, t.in[0]);
      const at::Tensor q = query_rows(op, block, t.in[1]);
      const at::Tensor k = key_rows(op, block, t.in[2]);
      const at::Tensor v = key_rows(op, block, t.in[3]);
      const at::Tensor delta = dy.mul(query_rows(op, block, t.in[4])).sum(2, true);
      at::Tensor p = scores_of(op, block, q, k, t.in[6])
                         .sub_(lse_of(op, block, t.in[5]).unsqueeze(3))
                         .exp_()
                         .view({op.kv_heads, -1, block.keys()});
      at::Tensor ds = at::bmm(dy, v.transpose(1, 2)).sub_(delta).mul_(p).mul_(scale);
      put_query_rows(op, block, at::bmm(ds, k), t.out[0]);
      dk.slice(1, block.low, block.to).add_(at::bmm(ds.transpose(1, 2), q));
      dv.slice(1, block.low, block.to).add_(at::bmm(p.transpose(1, 2), dy));
    });
    const std::vector<std::int64_t> shape = {op.batch, op.seq, op.kv_heads, op.head_dim};
    t.out[1].view(shape).select(0, batch).copy_(dk.transpose(0, 1));
    t.out[2].view(shape).select(0, batch).copy_(dv.transpose(0, 1));
  }
}

}  // namespace hethub::torch_backend
