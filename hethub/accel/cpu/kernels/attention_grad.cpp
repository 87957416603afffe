// The gradients of attention. The scores are made again tile by tile from q, k and lse:
//   p = exp(q·kᵀ·scale - lse), dv = pᵀ·dy, ds = p ∘ (dy·vᵀ - Σ dy∘y), dq = ds·k·scale,
//   dk = dsᵀ·q·scale.
// A thread owns all queries that read one head of keys of one sequence, so every sum has one order.
// Source: Dao, "FlashAttention-2", ICLR 2024.

#include "hethub/accel/cpu/kernels/attention_grad_rows.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

// A tile of keys of one head, its sums, and the tile of queries at hand.
struct KeyTile {
  std::int64_t batch = 0;
  std::int64_t kv_head = 0;
  std::int64_t from = 0;
  std::int64_t keys = 0;
  float* k = nullptr;         // [kTile, depth]
  float* k_turned = nullptr;  // [head_dim, kTile]
  float* v_turned = nullptr;  // [head_dim, kTile]
  float* dk = nullptr;        // [kTile, depth]
  float* dv = nullptr;        // [kTile, depth]
  float* q = nullptr;         // [kTile, depth], scaled
  float* dy = nullptr;        // [kTile, depth]
  float* dq = nullptr;        // [kTile, depth]
  float* p = nullptr;         // [kTile, kTile]
  float* ds = nullptr;        // [kTile, kTile]
};

std::int64_t scratch_floats(const Layout& layout) {
  return kTile * (6 * layout.depth + 2 * layout.op.head_dim + 2 * kTile);
}

KeyTile make_tile(const Layout& layout, Scratch scratch) {
  const std::int64_t rows = kTile * layout.depth;
  KeyTile tile;
  for (float** part : {&tile.k, &tile.dk, &tile.dv, &tile.q, &tile.dy, &tile.dq}) {
    *part = scratch.take(rows);
  }
  tile.k_turned = scratch.take(kTile * layout.op.head_dim);
  tile.v_turned = scratch.take(kTile * layout.op.head_dim);
  tile.p = scratch.take(kTile * kTile);
  tile.ds = scratch.take(kTile * kTile);
  return tile;
}

// Turns scores (p) and dy·vᵀ (ds) of one row into p and ds.
void soften_row(KeyTile& tile, std::int64_t row, Seen seen, std::int64_t columns, float lse,
                float pull) {
  float* p = tile.p + row * kTile;
  float* ds = tile.ds + row * kTile;
#pragma omp simd
  for (std::int64_t j = 0; j < columns; ++j) {
    const float weight = exp_of(p[j] - lse);
    const float slope = weight * (ds[j] - pull);
    const bool kept = j >= seen.first && j < seen.last;
    p[j] = kept ? weight : 0.0F;
    ds[j] = kept ? slope : 0.0F;
  }
}

struct QueryRows {
  std::int64_t head = 0;
  std::int64_t from = 0;
  std::int64_t rows = 0;
};

// p and ds of the tile of queries `at` over the tile of keys.
template <typename T>
void make_weights(const Layout& layout, KeyTile& tile, const Operands<T>& operands, QueryRows at) {
  const std::int64_t columns = round_up_to_lanes(tile.keys);
  TileProduct product{.m = at.rows,
                      .n = columns,
                      .k = layout.op.head_dim,
                      .a = tile.q,
                      .a_row = layout.depth,
                      .a_column = 1,
                      .b = tile.k_turned,
                      .b_row = kTile,
                      .c = tile.p,
                      .c_row = kTile};
  multiply(product);
  product.a = tile.dy;
  product.b = tile.v_turned;
  product.c = tile.ds;
  multiply(product);
  const std::int64_t line = (tile.batch * layout.op.heads + at.head) * layout.op.seq + at.from;
  for (std::int64_t row = 0; row < at.rows; ++row) {
    const Seen seen = seen_in_tile(layout, tile.batch, at.from + row, tile.from, tile.keys);
    soften_row(tile, row, seen, columns, operands.lse[line + row], operands.pulls[line + row]);
  }
}

template <typename T>
void add_to_dq(const Layout& layout, const KeyTile& tile, const Operands<T>& operands, QueryRows at,
               std::int64_t offset) {
  multiply({.m = at.rows,
            .n = layout.depth,
            .k = tile.keys,
            .a = tile.ds,
            .a_row = kTile,
            .a_column = 1,
            .b = tile.k,
            .b_row = layout.depth,
            .c = tile.dq,
            .c_row = layout.depth});
  for (std::int64_t row = 0; row < at.rows; ++row) {
    float* target = operands.dq_sums + offset + row * layout.query_row;
    const float* source = tile.dq + row * layout.depth;
#pragma omp simd
    for (std::int64_t d = 0; d < layout.op.head_dim; ++d) {
      target[d] += source[d];
    }
  }
}

template <typename T>
void pass_query_tile(const Layout& layout, KeyTile& tile, const Operands<T>& operands,
                     QueryRows at) {
  const std::int64_t offset =
      (tile.batch * layout.op.seq + at.from) * layout.query_row + at.head * layout.op.head_dim;
  copy_rows(operands.q + offset, layout.query_row, at.rows, layout.op.head_dim, layout.scale,
            tile.q, layout.depth);
  copy_rows(operands.dy + offset, layout.query_row, at.rows, layout.op.head_dim, 1.0F, tile.dy,
            layout.depth);
  make_weights(layout, tile, operands, at);
  TileProduct turned{.m = tile.keys,
                     .n = layout.depth,
                     .k = at.rows,
                     .a = tile.p,
                     .a_row = 1,
                     .a_column = kTile,
                     .b = tile.dy,
                     .b_row = layout.depth,
                     .c = tile.dv,
                     .c_row = layout.depth,
                     .add = true};
  multiply(turned);
  turned.a = tile.ds;
  turned.b = tile.q;
  turned.c = tile.dk;
  multiply(turned);
  add_to_dq(layout, tile, operands, at, offset);
}

template <typename T>
void write_sums(const Layout& layout, const float* sums, std::int64_t keys, T* to) {
  for (std::int64_t row = 0; row < keys; ++row) {
    write_row(sums + row * layout.depth, layout.op.head_dim, to + row * layout.key_row);
  }
}

template <typename T>
void run_key_tile(const Layout& layout, KeyTile& tile, const Operands<T>& operands) {
  const Attention& op = layout.op;
  const std::int64_t offset =
      (tile.batch * op.seq + tile.from) * layout.key_row + tile.kv_head * op.head_dim;
  transpose_rows(operands.k + offset, layout.key_row, tile.keys, op.head_dim, tile.k_turned, kTile);
  transpose_rows(operands.v + offset, layout.key_row, tile.keys, op.head_dim, tile.v_turned, kTile);
  // dq = ds·k·scale: the scale goes into k here, and into q for dk.
  copy_rows(operands.k + offset, layout.key_row, tile.keys, op.head_dim, layout.scale, tile.k,
            layout.depth);
  for (std::int64_t i = 0; i < kTile * layout.depth; ++i) {
    tile.dk[i] = 0;
    tile.dv[i] = 0;
  }
  const std::int64_t group = op.heads / op.kv_heads;
  for (std::int64_t head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head) {
    for (std::int64_t from = tile.from; from < op.seq; from += kTile) {
      const std::int64_t rows = op.seq - from < kTile ? op.seq - from : kTile;
      const std::int64_t first = first_seen_by(layout, tile.batch, from, rows);
      if (first >= tile.from + tile.keys) continue;
      pass_query_tile(layout, tile, operands, {head, from, rows});
    }
  }
  write_sums(layout, tile.dk, tile.keys, operands.dk + offset);
  write_sums(layout, tile.dv, tile.keys, operands.dv + offset);
}

template <typename T>
void attention_grad(const AttentionGrad& grad, const Arguments& arguments) {
  const Attention& op = grad.forward;
  const Layout layout = layout_of(op, integers(arguments, 6));
  const Operands<T> operands = operands_of<T>(op, arguments);
  const std::int64_t each = scratch_floats(layout);
  const auto work = [&](std::int64_t first, std::int64_t last, int thread) {
    KeyTile tile = make_tile(layout, {operands.scratch + thread * each});
    for (std::int64_t item = first; item < last; ++item) {
      tile.batch = item / op.kv_heads;
      tile.kv_head = item % op.kv_heads;
      begin_group(layout, operands, tile.batch, tile.kv_head);
      for (tile.from = 0; tile.from < op.seq; tile.from += kTile) {
        tile.keys = op.seq - tile.from < kTile ? op.seq - tile.from : kTile;
        run_key_tile(layout, tile, operands);
      }
      if (operands.rounds()) end_group(layout, operands, tile.batch, tile.kv_head);
    }
  };
  const int threads = threads_with_scratch(arguments, operands.scratch_bytes, each);
  parallel_ranges(threads, op.batch * op.kv_heads, 1, work);
}

}  // namespace

void run_attention_grad(const AttentionGrad& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { attention_grad<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL
