// The gradients of attention of bf16, on the processor's tiles. Scores are made again, turned: a
// row is a key. So p and ds are rows of a for dv and dk as they come, and ds pairs of rows of b for
// dq.
//   p = exp(k·qᵀ·scale - lse), dv = p·dy, ds = p ∘ (v·dyᵀ - Σ dy∘y)·scale, dk = ds·q, dqᵀ = kᵀ·ds.
// p and ds enter the products as two bf16 each. A thread owns all queries that read one head of
// keys of one sequence, so every sum has one order. Source: Dao, "FlashAttention-2", ICLR 2024.

#include "hethub/accel/cpu/kernels/amx/run.h"
#include "hethub/accel/cpu/kernels/amx/tiles.h"
#include "hethub/accel/cpu/kernels/amx/vectors.h"
#include "hethub/accel/cpu/kernels/attention_grad_rows.h"
#include "hethub/accel/cpu/kernels/parallel.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kKeys = 128;    // of a tile: four strips
constexpr std::int64_t kQueries = 64;  // two strips
constexpr std::int64_t kKeySteps = kKeys / kStep;
constexpr std::int64_t kQuerySteps = kQueries / kStep;
constexpr std::int64_t kPacked = 2 * kTileBf16;  // elements in a step of a packed strip

std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Packed strips whose elements are sums of two bf16.
struct SplitStrips {
  std::uint16_t* high = nullptr;
  std::uint16_t* low = nullptr;
};

// A tile of keys of one head and its sums, and the tile of queries at hand.
struct GradTile {
  Layout layout = {};
  Operands<Bf16> operands = {};
  std::int64_t steps = 0;  // of 32 along head_dim
  std::int64_t batch = 0;
  std::int64_t kv_head = 0;
  std::int64_t key = 0;  // the first,
  std::int64_t keys = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;  // the first,
  std::int64_t rows = 0;
  std::int64_t strips = 0;              // of 32 keys that the queries may see
  std::uint16_t* k = nullptr;           // strips of 32 keys, rows of a
  std::uint16_t* v = nullptr;           // the same
  std::uint16_t* k_turned = nullptr;    // strips of 32 of head_dim, rows of a
  std::uint16_t* q_columns = nullptr;   // strips of 32 queries, columns of b
  std::uint16_t* dy_columns = nullptr;  // the same
  std::uint16_t* q_pairs = nullptr;     // strips of 32 of head_dim, rows of b
  std::uint16_t* dy_pairs = nullptr;    // the same
  SplitStrips p = {};                   // strips of 32 keys, rows of a
  SplitStrips ds = {};                  // the same
  SplitStrips ds_pairs = {};            // strips of 32 queries, rows of b
  float* scores = nullptr;              // [128, 64]
  float* slopes = nullptr;              // [128, 64]
  float* dk = nullptr;                  // blocks of 32 x 32: strips of keys, then head_dim
  float* dv = nullptr;
  alignas(64) std::int32_t first[kQueries] = {};  // the first key each query sees
  alignas(64) float lse[kQueries] = {};
  alignas(64) float pulls[kQueries] = {};
};

std::int64_t scratch_floats(std::int64_t steps) {
  const std::int64_t depth = steps * kStep;
  return 3 * kKeys * depth / 2 + 4 * kQueries * depth / 2 + 3 * kKeys * kQueries +
         2 * kKeys * kQueries + 2 * kKeys * depth;
}

void place(GradTile& tile, Scratch scratch) {
  const std::int64_t depth = tile.steps * kStep;
  const auto packed = [&](std::int64_t elements) {
    return reinterpret_cast<std::uint16_t*>(scratch.take(elements / 2));
  };
  for (std::uint16_t** part : {&tile.k, &tile.v, &tile.k_turned}) {
    *part = packed(kKeys * depth);
  }
  for (std::uint16_t** part : {&tile.q_columns, &tile.dy_columns, &tile.q_pairs, &tile.dy_pairs}) {
    *part = packed(kQueries * depth);
  }
  for (SplitStrips* part : {&tile.p, &tile.ds, &tile.ds_pairs}) {
    *part = {packed(kKeys * kQueries), packed(kKeys * kQueries)};
  }
  tile.scores = scratch.take(kKeys * kQueries);
  tile.slopes = scratch.take(kKeys * kQueries);
  tile.dk = scratch.take(kKeys * depth);
  tile.dv = scratch.take(kKeys * depth);
}

const std::uint16_t* bits_of(const Bf16* values) { return &values->bits; }

std::int64_t key_offset(const GradTile& tile) {
  const Attention& op = tile.layout.op;
  return (tile.batch * op.seq + tile.key) * tile.layout.key_row + tile.kv_head * op.head_dim;
}

std::int64_t query_offset(const GradTile& tile) {
  const Attention& op = tile.layout.op;
  return (tile.batch * op.seq + tile.query) * tile.layout.query_row + tile.head * op.head_dim;
}

void pack_keys(GradTile& tile) {
  const std::int64_t line = tile.layout.key_row;
  const std::int64_t depth = tile.layout.op.head_dim;
  const std::uint16_t* k = bits_of(tile.operands.k) + key_offset(tile);
  const std::uint16_t* v = bits_of(tile.operands.v) + key_offset(tile);
  for (std::int64_t step = 0; step < tile.steps; ++step) {
    const std::int64_t d = step * kStep;
    for (std::int64_t row = 0; row < tile.keys; row += kBlock) {
      const std::int64_t to = (row / kBlock * tile.steps + step) * kPacked;
      const std::int64_t wide = least(kBlock, tile.keys - row);
      pack_rows({k + row * line, line, wide, depth}, d, tile.k + to);
      pack_rows({v + row * line, line, wide, depth}, d, tile.v + to);
      pack_turned_rows({k + d, line, least(kBlock, depth - d), tile.keys}, row,
                       tile.k_turned + (step * kKeySteps + row / kStep) * kPacked);
    }
  }
}

void pack_queries(GradTile& tile) {
  const std::int64_t line = tile.layout.query_row;
  const std::int64_t depth = tile.layout.op.head_dim;
  const auto pack = [&](const std::uint16_t* from, std::uint16_t* columns, std::uint16_t* pairs) {
    for (std::int64_t step = 0; step < tile.steps; ++step) {
      const std::int64_t d = step * kStep;
      for (std::int64_t row = 0; row < tile.rows; row += kBlock) {
        pack_turned_columns({from + row * line, line, least(kBlock, tile.rows - row), depth}, d,
                            columns + (row / kBlock * tile.steps + step) * kPacked);
        pack_pairs({from + d, line, least(kBlock, depth - d), tile.rows}, row,
                   pairs + (step * kQuerySteps + row / kStep) * kPacked);
      }
    }
  };
  pack(bits_of(tile.operands.q) + query_offset(tile), tile.q_columns, tile.q_pairs);
  pack(bits_of(tile.operands.dy) + query_offset(tile), tile.dy_columns, tile.dy_pairs);
}

// What each query brings; those that are not there see no key.
void load_queries(GradTile& tile) {
  const Attention& op = tile.layout.op;
  const std::int64_t line = (tile.batch * op.heads + tile.head) * op.seq + tile.query;
  for (std::int64_t row = 0; row < kQueries; ++row) {
    const bool there = row < tile.rows;
    tile.first[row] =
        there ? static_cast<std::int32_t>(first_seen(tile.layout, tile.batch, tile.query + row))
              : 0x7FFFFFFF;
    tile.lse[row] = there ? tile.operands.lse[line + row] : 0.0F;
    tile.pulls[row] = there ? tile.operands.pulls[line + row] : 0.0F;
  }
}

// p and ds of one key and 16 queries.
struct Weights {
  __m512 p;
  __m512 ds;
};

Weights weights_at(const GradTile& tile, std::int64_t key, std::int64_t query) {
  const auto scale = _mm512_set1_ps(tile.layout.scale);
  const auto at = _mm512_set1_epi32(static_cast<std::int32_t>(tile.key + key));
  const auto position =
      _mm512_add_epi32(_mm512_set1_epi32(static_cast<std::int32_t>(tile.query + query)),
                       _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const __mmask16 seen = _mm512_mask_cmple_epi32_mask(_mm512_cmple_epi32_mask(at, position),
                                                      _mm512_load_si512(tile.first + query), at);
  const float* scores = tile.scores + key * kQueries + query;
  const float* slopes = tile.slopes + key * kQueries + query;
  const __m512 p = _mm512_maskz_mov_ps(
      seen,
      exp_of(_mm512_fmsub_ps(_mm512_load_ps(scores), scale, _mm512_load_ps(tile.lse + query))));
  const __m512 pull = _mm512_sub_ps(_mm512_load_ps(slopes), _mm512_load_ps(tile.pulls + query));
  return {p, _mm512_maskz_mul_ps(seen, _mm512_mul_ps(p, scale), pull)};
}

// The words of two lines of 16 elements that alternate.
__m512i alternating(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

void store_split(const SplitStrips& strips, std::int64_t at, std::int64_t line, Split values) {
  store_line(strips.high + at, line, values.high);
  store_line(strips.low + at, line, values.low);
}

// Pairs of rows of b from the lines of two keys, for a strip of 32 queries.
void store_pairs(std::uint16_t* tiles, std::int64_t pair, __m512i even, __m512i odd) {
  store_line(tiles, pair, alternating(_mm512_castsi512_si256(even), _mm512_castsi512_si256(odd)));
  store_line(tiles + kTileBf16, pair,
             alternating(_mm512_extracti64x4_epi64(even, 1), _mm512_extracti64x4_epi64(odd, 1)));
}

// Puts p and ds of two keys and a strip of 32 queries where the products want them.
void make_weights(const GradTile& tile, std::int64_t key, std::int64_t query) {
  Split ds[2];
  const std::int64_t strip = (key / kBlock * kQuerySteps + query / kStep) * kPacked;
  for (std::int64_t odd = 0; odd < 2; ++odd) {
    const Weights first = weights_at(tile, key + odd, query);
    const Weights second = weights_at(tile, key + odd, query + kFloats);
    ds[odd] = split(first.ds, second.ds);
    store_split(tile.p, strip, key % kBlock + odd, split(first.p, second.p));
    store_split(tile.ds, strip, key % kBlock + odd, ds[odd]);
  }
  const std::int64_t at = (query / kBlock * kKeySteps + key / kStep) * kPacked;
  store_pairs(tile.ds_pairs.high + at, key % kStep / 2, ds[0].high, ds[1].high);
  store_pairs(tile.ds_pairs.low + at, key % kStep / 2, ds[0].low, ds[1].low);
}

// Adds a block of dqᵀ, [32 of head_dim, 32 queries], to dq's sums.
void add_turned(const GradTile& tile, const float* block, std::int64_t query, std::int64_t d) {
  float* sums = tile.operands.dq_sums + query_offset(tile) + query * tile.layout.query_row + d;
  for (std::int64_t low = 0; low < kBlock; low += kFloats) {
    const __mmask16 lanes = lanes_in(d + low, 0, tile.layout.op.head_dim);
    for (std::int64_t row = 0; row < kBlock && query + row < tile.rows; row += kFloats) {
      __m512i lines[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        lines[i] = _mm512_load_si512(block + (low + i) * kBlock + row);
      }
      turn_words(lines, [&](int line, __m512i words) {
        if (query + row + line >= tile.rows) return;
        float* to = sums + (row + line) * tile.layout.query_row + low;
        const __m512 sum =
            _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), _mm512_castsi512_ps(words));
        _mm512_mask_storeu_ps(to, lanes, sum);
      });
    }
  }
}

// scores = k·qᵀ and slopes = v·dyᵀ.
void make_scores(const GradTile& tile) {
  before_tiles();
  for (std::int64_t key = 0; key < tile.strips * kBlock; key += kBlock) {
    for (std::int64_t query = 0; query < tile.rows; query += kBlock) {
      const std::int64_t to = key * kQueries + query;
      clear_sums();
      add_product(tile.k + key * tile.steps * kStep, tile.q_columns + query * tile.steps * kStep,
                  tile.steps);
      store_sums(tile.scores + to, kQueries);
      clear_sums();
      add_product(tile.v + key * tile.steps * kStep, tile.dy_columns + query * tile.steps * kStep,
                  tile.steps);
      store_sums(tile.slopes + to, kQueries);
    }
  }
}

// dv += p·dy, dk += ds·q, dqᵀ += kᵀ·ds.
void add_gradients(const GradTile& tile) {
  alignas(64) float block[kBlock * kBlock];
  const std::int64_t query_steps = steps_of(tile.rows);
  before_tiles();
  for (std::int64_t step = 0; step < tile.steps; ++step) {
    const std::int64_t pairs = step * kQuerySteps * kPacked;
    for (std::int64_t strip = 0; strip < tile.strips; ++strip) {
      const std::int64_t sums = (strip * tile.steps + step) * kBlock * kBlock;
      const std::int64_t rows = strip * kQuerySteps * kPacked;
      load_sums(tile.dv + sums, kBlock);
      add_product(tile.p.low + rows, tile.dy_pairs + pairs, query_steps);
      add_product(tile.p.high + rows, tile.dy_pairs + pairs, query_steps);
      store_sums(tile.dv + sums, kBlock);
      load_sums(tile.dk + sums, kBlock);
      add_product(tile.ds.low + rows, tile.q_pairs + pairs, query_steps);
      add_product(tile.ds.high + rows, tile.q_pairs + pairs, query_steps);
      store_sums(tile.dk + sums, kBlock);
    }
    for (std::int64_t query = 0; query < tile.rows; query += kBlock) {
      clear_sums();
      const std::uint16_t* turned = tile.k_turned + step * kKeySteps * kPacked;
      const std::int64_t at = query / kBlock * kKeySteps * kPacked;
      add_product(turned, tile.ds_pairs.low + at, tile.strips);
      add_product(turned, tile.ds_pairs.high + at, tile.strips);
      store_sums(block, kBlock);
      add_turned(tile, block, query, step * kStep);
    }
  }
}

void pass_queries(GradTile& tile) {
  tile.strips = least(blocks_of(tile.keys), (tile.query + tile.rows - 1 - tile.key) / kBlock + 1);
  pack_queries(tile);
  load_queries(tile);
  make_scores(tile);
  for (std::int64_t query = 0; query < tile.rows; query += kBlock) {
    for (std::int64_t key = 0; key < tile.strips * kBlock; key += 2) {
      make_weights(tile, key, query);
    }
  }
  add_gradients(tile);
}

void write_blocks(const GradTile& tile, const float* sums, Bf16* to) {
  for (std::int64_t key = 0; key < tile.keys; ++key) {
    for (std::int64_t d = 0; d < tile.layout.op.head_dim; d += kBlock) {
      const float* row =
          sums + (key / kBlock * tile.steps + d / kBlock) * kBlock * kBlock + key % kBlock * kBlock;
      _mm512_mask_storeu_epi16(to + key * tile.layout.key_row + d,
                               first_lanes(tile.layout.op.head_dim - d),
                               rounded(_mm512_load_ps(row), _mm512_load_ps(row + kFloats)));
    }
  }
}

void run_keys(GradTile& tile) {
  const Attention& op = tile.layout.op;
  const auto bytes = static_cast<std::size_t>(kKeys * tile.steps * kStep * 4);
  pack_keys(tile);
  __builtin_memset(tile.dk, 0, bytes);
  __builtin_memset(tile.dv, 0, bytes);
  const std::int64_t group = op.heads / op.kv_heads;
  for (tile.head = tile.kv_head * group; tile.head < (tile.kv_head + 1) * group; ++tile.head) {
    for (tile.query = tile.key / kQueries * kQueries; tile.query < op.seq; tile.query += kQueries) {
      tile.rows = least(kQueries, op.seq - tile.query);
      const std::int64_t first = first_seen_by(tile.layout, tile.batch, tile.query, tile.rows);
      if (first >= tile.key + tile.keys) continue;
      pass_queries(tile);
    }
  }
  write_blocks(tile, tile.dk, tile.operands.dk + key_offset(tile));
  write_blocks(tile, tile.dv, tile.operands.dv + key_offset(tile));
}

}  // namespace

void run_attention_grad(const AttentionGrad& grad, const Arguments& arguments) {
  if (arguments.dtype != DType::kBf16) {
    return x86_64_v4::kKernels.Kernel<AttentionGrad>::run(grad, arguments);
  }
  const Attention& op = grad.forward;
  GradTile shared{.layout = layout_of(op, integers(arguments, 6)),
                  .operands = operands_of<Bf16>(op, arguments),
                  .steps = steps_of(op.head_dim)};
  const std::int64_t each = scratch_floats(shared.steps);
  const auto work = [&](std::int64_t first, std::int64_t last, int thread) {
    const TileRegisters tiles;
    GradTile tile = shared;
    place(tile, {shared.operands.scratch + thread * each});
    for (std::int64_t item = first; item < last; ++item) {
      tile.batch = item / op.kv_heads;
      tile.kv_head = item % op.kv_heads;
      begin_group(tile.layout, tile.operands, tile.batch, tile.kv_head);
      for (tile.key = 0; tile.key < op.seq; tile.key += kKeys) {
        tile.keys = least(kKeys, op.seq - tile.key);
        run_keys(tile);
      }
      end_group(tile.layout, tile.operands, tile.batch, tile.kv_head);
    }
  };
  parallel_ranges(threads_with_scratch(arguments, shared.operands.scratch_bytes, each),
                  op.batch * op.kv_heads, 1, work);
}

}  // namespace hethub::HETHUB_LEVEL
