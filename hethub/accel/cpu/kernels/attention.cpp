// Attention without a matrix of all scores: tiles of queries pass over tiles of keys, and each row
// keeps the maximum and the sum of its exponentials so far.
// Source: Dao, Fu, Ermon, Rudra, Ré, "FlashAttention", NeurIPS 2022.

#include "hethub/accel/cpu/kernels/attention_tiles.h"
#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"
#include "hethub/accel/cpu/kernels/run.h"

namespace hethub::HETHUB_LEVEL {
namespace {

// One tile of queries of one head, and the softmax so far.
struct QueryTile {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t from = 0;
  std::int64_t rows = 0;
  float* q = nullptr;        // [kTile, depth], scaled
  float* keys = nullptr;     // [head_dim, kTile]: keys transposed
  float* values = nullptr;   // [kTile, depth]
  float* weights = nullptr;  // [kTile, kTile]: scores, then exponentials
  float* sums = nullptr;     // [kTile, depth]: Σ weight · value
  float most[kTile] = {};    // maximum of the scores
  double whole[kTile] = {};  // sum of the exponentials
};

std::int64_t scratch_floats(const Layout& layout) {
  return kTile * (3 * layout.depth + layout.op.head_dim + kTile);
}

QueryTile make_tile(const Layout& layout, Scratch scratch) {
  QueryTile tile;
  tile.q = scratch.take(kTile * layout.depth);
  tile.values = scratch.take(kTile * layout.depth);
  tile.sums = scratch.take(kTile * layout.depth);
  tile.keys = scratch.take(kTile * layout.op.head_dim);
  tile.weights = scratch.take(kTile * kTile);
  return tile;
}

// Turns the scores of one row into exponentials, and rescales what it had.
void soften_row(const Layout& layout, QueryTile& tile, std::int64_t row, Seen seen,
                std::int64_t columns) {
  float* weights = tile.weights + row * kTile;
  float most = tile.most[row];
#pragma omp simd reduction(max : most)
  for (std::int64_t j = seen.first; j < seen.last; ++j) {
    most = weights[j] > most ? weights[j] : most;
  }
  const float rescale = exp_of(tile.most[row] - most);
  float whole = 0;
#pragma omp simd reduction(+ : whole)
  for (std::int64_t j = seen.first; j < seen.last; ++j) {
    const float weight = exp_of(weights[j] - most);
    weights[j] = weight;
    whole += weight;
  }
  for (std::int64_t j = 0; j < seen.first; ++j) {
    weights[j] = 0;
  }
  for (std::int64_t j = seen.last; j < columns; ++j) {
    weights[j] = 0;
  }
  tile.whole[row] = tile.whole[row] * rescale + whole;
  tile.most[row] = most;
  if (rescale == 1.0F) return;
  float* sums = tile.sums + row * layout.depth;
#pragma omp simd
  for (std::int64_t d = 0; d < layout.depth; ++d) {
    sums[d] *= rescale;
  }
}

template <typename T>
void pass_key_tile(const Layout& layout, QueryTile& tile, const Arguments& arguments,
                   std::int64_t key, std::int64_t keys) {
  const std::int64_t columns = round_up_to_lanes(keys);
  const std::int64_t kv_head = tile.head / (layout.op.heads / layout.op.kv_heads);
  const std::int64_t at =
      (tile.batch * layout.op.seq + key) * layout.key_row + kv_head * layout.op.head_dim;
  const T* k = input<T>(arguments, 1) + at;
  const T* v = input<T>(arguments, 2) + at;
  transpose_rows(k, layout.key_row, keys, layout.op.head_dim, tile.keys, kTile);
  copy_rows(v, layout.key_row, keys, layout.op.head_dim, 1.0F, tile.values, layout.depth);
  multiply({.m = tile.rows,
            .n = columns,
            .k = layout.op.head_dim,
            .a = tile.q,
            .a_row = layout.depth,
            .a_column = 1,
            .b = tile.keys,
            .b_row = kTile,
            .c = tile.weights,
            .c_row = kTile});
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const Seen seen = seen_in_tile(layout, tile.batch, tile.from + row, key, keys);
    if (seen.first < seen.last) {
      soften_row(layout, tile, row, seen, columns);
    } else {
      for (std::int64_t j = 0; j < columns; ++j) {
        tile.weights[row * kTile + j] = 0;
      }
    }
  }
  multiply({.m = tile.rows,
            .n = layout.depth,
            .k = keys,
            .a = tile.weights,
            .a_row = kTile,
            .a_column = 1,
            .b = tile.values,
            .b_row = layout.depth,
            .c = tile.sums,
            .c_row = layout.depth,
            .add = true});
}

template <typename T>
void write_rows(const Layout& layout, const QueryTile& tile, const Arguments& arguments) {
  T* y = output<T>(arguments, 0) + (tile.batch * layout.op.seq + tile.from) * layout.query_row +
         tile.head * layout.op.head_dim;
  float* lse =
      output(arguments, 1) + (tile.batch * layout.op.heads + tile.head) * layout.op.seq + tile.from;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const auto share = static_cast<float>(1.0 / tile.whole[row]);
    lse[row] = static_cast<float>(tile.most[row] + __builtin_log(tile.whole[row]));
    const float* sums = tile.sums + row * layout.depth;
    T* target = y + row * layout.query_row;
#pragma omp simd
    for (std::int64_t d = 0; d < layout.op.head_dim; ++d) {
      target[d] = sums[d] * share;
    }
  }
}

template <typename T>
void run_tile(const Layout& layout, QueryTile& tile, const Arguments& arguments) {
  const T* q = input<T>(arguments, 0) +
               (tile.batch * layout.op.seq + tile.from) * layout.query_row +
               tile.head * layout.op.head_dim;
  copy_rows(q, layout.query_row, tile.rows, layout.op.head_dim, layout.scale, tile.q, layout.depth);
  for (std::int64_t i = 0; i < kTile * layout.depth; ++i) {
    tile.sums[i] = 0;
  }
  for (std::int64_t row = 0; row < kTile; ++row) {
    tile.most[row] = -__builtin_inff();
    tile.whole[row] = 0;
  }
  const std::int64_t end = tile.from + tile.rows;
  const std::int64_t first = first_seen_by(layout, tile.batch, tile.from, tile.rows);
  for (std::int64_t key = first / kTile * kTile; key < end; key += kTile) {
    pass_key_tile<T>(layout, tile, arguments, key, end - key < kTile ? end - key : kTile);
  }
  write_rows<T>(layout, tile, arguments);
}

template <typename T>
void attention(const Attention& op, const Arguments& arguments) {
  const Layout layout = layout_of(op, integers(arguments, 3));
  const std::int64_t each = scratch_floats(layout);
  const int threads = threads_with_scratch(arguments, arguments.workspace_bytes, each);
  auto* scratch = static_cast<float*>(arguments.workspace);
  const std::int64_t tiles = (op.seq + kTile - 1) / kTile;
  const auto work = [&](std::int64_t first, std::int64_t last, int thread) {
    QueryTile tile = make_tile(layout, {scratch + thread * each});
    for (std::int64_t item = first; item < last; ++item) {
      // Heads of one tile of positions follow each other: they share keys and values.
      tile.head = item % op.heads;
      tile.from = item / op.heads % tiles * kTile;
      tile.batch = item / op.heads / tiles;
      tile.rows = op.seq - tile.from < kTile ? op.seq - tile.from : kTile;
      run_tile<T>(layout, tile, arguments);
    }
  };
  parallel_ranges(threads, op.batch * op.heads * tiles, 1, work);
}

}  // namespace

void run_attention(const Attention& op, const Arguments& arguments) {
  in_type_of(arguments, [&]<typename T>(T /*element*/) { attention<T>(op, arguments); });
}

}  // namespace hethub::HETHUB_LEVEL
