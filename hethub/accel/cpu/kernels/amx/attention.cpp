// Attention of bf16 on the processor's tiles. Strips of 32 queries pass over 256 keys at a time,
// and each row keeps the maximum and the sum of its exponentials so far. Keys and values are packed
// once for all strips, where the workspace has room. Weights enter their product as two bf16 each.
// Source: Dao, Fu, Ermon, Rudra, Ré, "FlashAttention", NeurIPS 2022.

#include "hethub/accel/cpu/kernels/amx/run.h"
#include "hethub/accel/cpu/kernels/amx/tiles.h"
#include "hethub/accel/cpu/kernels/amx/vectors.h"
#include "hethub/accel/cpu/kernels/attention_tiles.h"
#include "hethub/accel/cpu/kernels/operands.h"
#include "hethub/accel/cpu/kernels/parallel.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kKeys = 256;  // that a strip of queries passes over at a time

std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// A thread's scratch, and what lies in it.
struct Strips {
  Layout layout;
  std::int64_t steps = 0;  // of 32 along head_dim
  std::int64_t room = 0;   // keys that are packed at a time, a multiple of 256
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t packed_at = -1;     // the first key packed,
  std::int64_t packed_for = -1;    // and the head of keys, counted over the batch
  std::uint16_t* q = nullptr;      // rows of a
  std::uint16_t* p = nullptr;      // rows of a: exponentials, rounded,
  std::uint16_t* p_low = nullptr;  // and what the rounding left
  std::uint16_t* k = nullptr;      // columns of b: strips of 32 keys
  std::uint16_t* v = nullptr;      // rows of b: strips of 32 of head_dim
  float* scores = nullptr;         // [32, 256]
  float* sums = nullptr;           // blocks of 32 x 32 along head_dim
  float most[kBlock] = {};
  double whole[kBlock] = {};
};

std::int64_t bytes_without_keys(std::int64_t steps) {
  return kBlock * (steps * kStep * 2 + 2 * kKeys * 2 + kKeys * 4 + steps * kStep * 4);
}

std::int64_t bytes_of_keys(std::int64_t steps, std::int64_t keys) {
  return keys * steps * kStep * 4;
}

Strips make_strips(const Layout& layout, std::byte* scratch, std::int64_t bytes) {
  Strips strips{.layout = layout, .steps = steps_of(layout.op.head_dim)};
  const std::int64_t left = bytes - bytes_without_keys(strips.steps);
  const std::int64_t room = left / bytes_of_keys(strips.steps, kKeys) * kKeys;
  strips.room = least(room, (layout.op.seq + kKeys - 1) / kKeys * kKeys);
  const auto take = [&](std::int64_t size) {
    std::byte* part = scratch;
    scratch += size;
    return part;
  };
  const std::int64_t depth = strips.steps * kStep;
  strips.q = reinterpret_cast<std::uint16_t*>(take(kBlock * depth * 2));
  strips.p = reinterpret_cast<std::uint16_t*>(take(kBlock * kKeys * 2));
  strips.p_low = reinterpret_cast<std::uint16_t*>(take(kBlock * kKeys * 2));
  strips.scores = reinterpret_cast<float*>(take(kBlock * kKeys * 4));
  strips.sums = reinterpret_cast<float*>(take(kBlock * depth * 4));
  strips.k = reinterpret_cast<std::uint16_t*>(take(strips.room * depth * 2));
  strips.v = reinterpret_cast<std::uint16_t*>(take(strips.room * depth * 2));
  return strips;
}

// Packs the keys and values around position `key`, unless they are.
void pack_keys(Strips& strips, const Arguments& arguments, std::int64_t key) {
  const Attention& op = strips.layout.op;
  const std::int64_t from = key / strips.room * strips.room;
  const std::int64_t kv_head = strips.head / (op.heads / op.kv_heads);
  const std::int64_t owner = strips.batch * op.kv_heads + kv_head;
  if (from == strips.packed_at && owner == strips.packed_for) return;
  strips.packed_at = from;
  strips.packed_for = owner;
  const std::int64_t keys = least(strips.room, op.seq - from);
  const std::int64_t at =
      (strips.batch * op.seq + from) * strips.layout.key_row + kv_head * op.head_dim;
  const auto* k = input<std::uint16_t>(arguments, 1) + at;
  const auto* v = input<std::uint16_t>(arguments, 2) + at;
  const std::int64_t line = strips.layout.key_row;
  for (std::int64_t row = 0; row < keys; row += kBlock) {
    const std::uint16_t* rows = k + row * line;
    const Strip columns{rows, line, least(kBlock, keys - row), op.head_dim};
    for (std::int64_t step = 0; step < strips.steps; ++step) {
      pack_turned_columns(columns, step * kStep,
                          strips.k + (row / kBlock * strips.steps + step) * 2 * kTileBf16);
      const std::int64_t d = step * kStep;
      const Strip values{v + d, line, least(kBlock, op.head_dim - d), keys};
      pack_pairs(values, row, strips.v + (step * strips.room + row) * kBlock);
    }
  }
}

// Turns the scores of one row into exponentials, and rescales what it had.
void soften_row(Strips& strips, std::int64_t row, Seen seen, std::int64_t columns) {
  const __m512 scale = _mm512_set1_ps(strips.layout.scale);
  const float* scores = strips.scores + row * kKeys;
  const std::int64_t begin = seen.first / kFloats * kFloats;
  __m512 most_lanes = _mm512_set1_ps(strips.most[row]);
  for (std::int64_t j = begin; j < seen.last; j += kFloats) {
    const __m512 score = _mm512_mul_ps(_mm512_load_ps(scores + j), scale);
    most_lanes =
        _mm512_mask_max_ps(most_lanes, lanes_in(j, seen.first, seen.last), most_lanes, score);
  }
  const float most = _mm512_reduce_max_ps(most_lanes);
  const __m512 minus = _mm512_set1_ps(-most);
  __m512 whole = _mm512_setzero_ps();
  const auto weights_at = [&](std::int64_t j) {
    const __mmask16 lanes = lanes_in(j, seen.first, seen.last);
    if (lanes == 0) return _mm512_setzero_ps();
    const __m512 weights = _mm512_maskz_mov_ps(
        lanes, exp_of(_mm512_fmadd_ps(_mm512_load_ps(scores + j), scale, minus)));
    whole = _mm512_add_ps(whole, weights);
    return weights;
  };
  for (std::int64_t j = 0; j < columns; j += kStep) {
    const __m512 low = weights_at(j);
    const __m512 high = weights_at(j + kFloats);
    const Split weights = split(low, high);
    store_line(strips.p + j * kBlock, row, weights.high);
    store_line(strips.p_low + j * kBlock, row, weights.low);
  }
  const float rescale = __builtin_expf(strips.most[row] - most);
  strips.whole[row] =
      strips.whole[row] * rescale + static_cast<double>(_mm512_reduce_add_ps(whole));
  strips.most[row] = most;
  if (rescale == 1.0F) return;
  for (std::int64_t step = 0; step < strips.steps; ++step) {
    float* sums = strips.sums + step * kBlock * kBlock + row * kBlock;
    for (std::int64_t d = 0; d < kBlock; d += kFloats) {
      _mm512_store_ps(sums + d, _mm512_mul_ps(_mm512_load_ps(sums + d), _mm512_set1_ps(rescale)));
    }
  }
}

void soften_rows(Strips& strips, std::int64_t from, std::int64_t rows, std::int64_t key,
                 std::int64_t keys) {
  const std::int64_t columns = blocks_of(keys) * kBlock;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Seen seen = seen_in_tile(strips.layout, strips.batch, from + row, key, keys);
    if (seen.first < seen.last) {
      soften_row(strips, row, seen, columns);
      continue;
    }
    for (std::int64_t j = 0; j < columns; j += kStep) {
      store_line(strips.p + j * kBlock, row, _mm512_setzero_si512());
      store_line(strips.p_low + j * kBlock, row, _mm512_setzero_si512());
    }
  }
}

void pass_keys(Strips& strips, std::int64_t from, std::int64_t rows, std::int64_t key,
               std::int64_t keys) {
  const std::int64_t at = key - strips.packed_at;
  before_tiles();
  for (std::int64_t column = 0; column < keys; column += kBlock) {
    clear_sums();
    add_product(strips.q, strips.k + (at + column) * strips.steps * kStep, strips.steps);
    store_sums(strips.scores + column, kKeys);
  }
  soften_rows(strips, from, rows, key, keys);
  before_tiles();
  for (std::int64_t step = 0; step < strips.steps; ++step) {
    float* sums = strips.sums + step * kBlock * kBlock;
    load_sums(sums, kBlock);
    const std::uint16_t* values = strips.v + (step * strips.room + at) * kBlock;
    add_product(strips.p_low, values, blocks_of(keys));
    add_product(strips.p, values, blocks_of(keys));
    store_sums(sums, kBlock);
  }
}

void write_rows(const Strips& strips, const Arguments& arguments, std::int64_t from,
                std::int64_t rows) {
  const Attention& op = strips.layout.op;
  auto* y = output<std::uint16_t>(arguments, 0) +
            (strips.batch * op.seq + from) * strips.layout.query_row + strips.head * op.head_dim;
  float* lse = output(arguments, 1) + (strips.batch * op.heads + strips.head) * op.seq + from;
  for (std::int64_t row = 0; row < rows; ++row, y += strips.layout.query_row) {
    const auto share = _mm512_set1_ps(static_cast<float>(1.0 / strips.whole[row]));
    lse[row] = static_cast<float>(strips.most[row] + __builtin_log(strips.whole[row]));
    for (std::int64_t d = 0; d < op.head_dim; d += kBlock) {
      const float* sums = strips.sums + d * kBlock + row * kBlock;
      const __m512 low = _mm512_mul_ps(_mm512_load_ps(sums), share);
      const __m512 high = _mm512_mul_ps(_mm512_load_ps(sums + kFloats), share);
      _mm512_mask_storeu_epi16(y + d, first_lanes(op.head_dim - d), rounded(low, high));
    }
  }
}

void run_strip(Strips& strips, const Arguments& arguments, std::int64_t from) {
  const Attention& op = strips.layout.op;
  const std::int64_t rows = least(kBlock, op.seq - from);
  const auto* q = input<std::uint16_t>(arguments, 0) +
                  (strips.batch * op.seq + from) * strips.layout.query_row +
                  strips.head * op.head_dim;
  const Strip queries{q, strips.layout.query_row, rows, op.head_dim};
  for (std::int64_t step = 0; step < strips.steps; ++step) {
    pack_rows(queries, step * kStep, strips.q + step * 2 * kTileBf16);
  }
  __builtin_memset(strips.sums, 0, static_cast<std::size_t>(kBlock * strips.steps * kStep * 4));
  for (std::int64_t row = 0; row < kBlock; ++row) {
    strips.most[row] = -__builtin_inff();
    strips.whole[row] = 0;
  }
  const std::int64_t end = from + rows;
  const std::int64_t first = first_seen_by(strips.layout, strips.batch, from, rows);
  for (std::int64_t key = first / kKeys * kKeys; key < end; key += kKeys) {
    pack_keys(strips, arguments, key);
    pass_keys(strips, from, rows, key, least(kKeys, end - key));
  }
  write_rows(strips, arguments, from, rows);
}

}  // namespace

void run_attention(const Attention& op, const Arguments& arguments) {
  if (arguments.dtype != DType::kBf16)
    return x86_64_v4::kKernels.Kernel<Attention>::run(op, arguments);
  const Layout layout = layout_of(op, integers(arguments, 3));
  const std::int64_t steps = steps_of(op.head_dim);
  const std::int64_t smallest = bytes_without_keys(steps) + bytes_of_keys(steps, kKeys);
  const auto threads =
      static_cast<int>(least(arguments.threads, arguments.workspace_bytes / smallest));
  const std::int64_t bytes = arguments.workspace_bytes / threads / kLineBytes * kLineBytes;
  const std::int64_t count = blocks_of(op.seq);
  const auto work = [&](std::int64_t first, std::int64_t last, int thread) {
    const TileRegisters tiles;
    Strips strips =
        make_strips(layout, static_cast<std::byte*>(arguments.workspace) + thread * bytes, bytes);
    for (std::int64_t item = first; item < last; ++item) {
      strips.batch = item / count / op.heads;
      strips.head = item / count % op.heads;
      run_strip(strips, arguments, item % count * kBlock);
    }
  };
  parallel_ranges(threads, op.batch * op.heads * count, 1, work);
}

}  // namespace hethub::HETHUB_LEVEL
