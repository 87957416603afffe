// Matrix products of bf16 on the processor's tiles. Blocks of a and b are packed into the workspace
// so that they stay in cache; 32 x 32 sums stay in tiles along all of a block's depth.

#include <cstddef>

#include "hethub/accel/cpu/kernels/amx/run.h"
#include "hethub/accel/cpu/kernels/amx/tiles.h"
#include "hethub/accel/cpu/kernels/amx/vectors.h"
#include "hethub/accel/cpu/kernels/parallel.h"

namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kMostDepth = 2048;                      // elements along k in a block
constexpr std::int64_t kTurnedRows = 128;                      // of a that are packed together
constexpr std::int64_t kMostBytesOfB = std::int64_t{1} << 20;  // packed, to stay near the core
constexpr std::int64_t kMostBytesOfSums = std::int64_t{1} << 20;

std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
std::int64_t whole_blocks(std::int64_t count) { return blocks_of(count) * kBlock; }
// The largest multiple of a block up to `count`, and at least one.
std::int64_t blocks_within(std::int64_t count) { return most(count / kBlock, 1) * kBlock; }

// What is packed at a time, in multiples of 32.
struct Blocking {
  std::int64_t m = 0;      // rows for which a packed block of b serves
  std::int64_t strip = 0;  // rows of a
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool keeps_sums = false;  // between blocks of k, apart from c

  std::int64_t bytes_of_a() const { return 2 * strip * k; }
  std::int64_t bytes_of_b() const { return 2 * n * k; }
  std::int64_t bytes_of_sums() const { return keeps_sums ? 4 * m * n : 0; }
  std::int64_t bytes() const { return bytes_of_a() + bytes_of_b() + bytes_of_sums(); }
};

// The largest that fits into `bytes`, which have room for one of 32 each way.
Blocking blocking_of(const MatrixProduct& product, std::int64_t bytes) {
  Blocking block;
  const std::int64_t depth = whole_blocks(product.k);
  block.k = depth <= kMostDepth ? depth : kMostDepth / 2;
  block.n = least(whole_blocks(product.n), blocks_within(kMostBytesOfB / 2 / block.k));
  block.strip = product.a_transposed ? least(whole_blocks(product.m), kTurnedRows) : kBlock;
  for (;;) {
    block.keeps_sums = block.k < depth && product.result != DType::kF32;
    const std::int64_t left = bytes - block.bytes_of_a() - block.bytes_of_b();
    const std::int64_t rows = blocks_within(least(kMostBytesOfSums, most(left, 0)) / 4 / block.n);
    block.m = whole_blocks(product.m);
    if (block.keeps_sums && block.m > rows) block.m = most(rows, block.strip);
    if (block.bytes() <= bytes) return block;
    if (block.strip > kBlock) {
      block.strip = kBlock;
    } else if (block.n > kBlock) {
      block.n = blocks_within(block.n / 2);
    } else if (block.k > kBlock) {
      block.k = blocks_within(block.k / 2);
    } else {
      return block;
    }
  }
}

// Rows and columns of c, and what of k.
struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t size() const { return last - first; }
};

// The work of one thread: rows and columns of its own.
struct Task {
  const MatrixProduct& product;
  const MatrixOperands& operands;
  Blocking blocking;
  std::uint16_t* a = nullptr;
  std::uint16_t* b = nullptr;
  float* sums = nullptr;
};

// A strip of 32 lines of the packed form, from `at` of m or n on.
std::int64_t strip_size(Range k) { return steps_of(k.size()) * 2 * kTileBf16; }

// Lines that lie in memory as the packed form wants them, each along k, are packed one strip after
// the other; of the others all strips go along k together, so that memory is read in order.
void pack_a(const Task& task, Range m, Range k) {
  const auto* a = static_cast<const std::uint16_t*>(task.operands.a);
  Strip strip{.deep = k.size()};
  if (!task.product.a_transposed) {
    strip.line = task.product.k;
    for (std::int64_t row = m.first; row < m.last; row += kBlock) {
      strip.from = a + row * strip.line + k.first;
      strip.wide = least(kBlock, m.last - row);
      std::uint16_t* to = task.a + (row - m.first) / kBlock * strip_size(k);
      for (std::int64_t at = 0; at < k.size(); at += kStep, to += 2 * kTileBf16) {
        pack_rows(strip, at, to);
      }
    }
    return;
  }
  strip.line = task.product.m;
  for (std::int64_t at = 0; at < k.size(); at += kStep) {
    std::uint16_t* to = task.a + at / kStep * 2 * kTileBf16;
    for (std::int64_t row = m.first; row < m.last; row += kBlock, to += strip_size(k)) {
      strip.from = a + k.first * strip.line + row;
      strip.wide = least(kBlock, m.last - row);
      pack_turned_rows(strip, at, to);
    }
  }
}

void pack_b(const Task& task, Range n, Range k) {
  const auto* b = static_cast<const std::uint16_t*>(task.operands.b);
  Strip strip{.deep = k.size()};
  if (task.product.b_transposed) {
    strip.line = task.product.k;
    for (std::int64_t column = n.first; column < n.last; column += kBlock) {
      strip.from = b + column * strip.line + k.first;
      strip.wide = least(kBlock, n.last - column);
      std::uint16_t* to = task.b + (column - n.first) / kBlock * strip_size(k);
      for (std::int64_t at = 0; at < k.size(); at += kStep, to += 2 * kTileBf16) {
        pack_turned_columns(strip, at, to);
      }
    }
    return;
  }
  strip.line = task.product.n;
  for (std::int64_t at = 0; at < k.size(); at += kStep) {
    std::uint16_t* to = task.b + at / kStep * 2 * kTileBf16;
    for (std::int64_t column = n.first; column < n.last; column += kBlock, to += strip_size(k)) {
      strip.from = b + k.first * strip.line + column;
      strip.wide = least(kBlock, n.last - column);
      pack_pairs(strip, at, to);
    }
  }
}

// A block of c, of at most 32 x 32.
struct Target {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool is_whole() const { return rows == kBlock && columns == kBlock; }
};

float* floats_of(const Task& task, const Target& at) {
  return static_cast<float*>(task.operands.c) + at.row * task.product.n + at.column;
}

void copy_block(const float* from, std::int64_t from_row, float* to, std::int64_t to_row,
                const Target& at) {
  const __mmask32 lanes = first_lanes(at.columns);
  const auto low = static_cast<__mmask16>(lanes);
  const auto high = static_cast<__mmask16>(lanes >> 16U);
  for (std::int64_t row = 0; row < at.rows; ++row) {
    const float* source = from + row * from_row;
    float* target = to + row * to_row;
    _mm512_mask_storeu_ps(target, low, _mm512_maskz_loadu_ps(low, source));
    _mm512_mask_storeu_ps(target + kLines, high, _mm512_maskz_loadu_ps(high, source + kLines));
  }
}

// Rounds a block of sums, with the bias if there is one.
void round_block(const Task& task, const float* sums, const Target& at) {
  const __mmask32 lanes = first_lanes(at.columns);
  const auto* bias = static_cast<const std::uint16_t*>(task.operands.bias);
  __m512 low = _mm512_setzero_ps();
  __m512 high = _mm512_setzero_ps();
  if (task.product.bias) {
    const __m512i line = _mm512_maskz_loadu_epi16(lanes, bias + at.column);
    low = widened(_mm512_castsi512_si256(line));
    high = widened(_mm512_extracti64x4_epi64(line, 1));
  }
  auto* c = static_cast<std::uint16_t*>(task.operands.c) + at.row * task.product.n + at.column;
  for (std::int64_t row = 0; row < at.rows; ++row, c += task.product.n) {
    const __m512 first = _mm512_add_ps(_mm512_load_ps(sums + row * kBlock), low);
    const __m512 second = _mm512_add_ps(_mm512_load_ps(sums + row * kBlock + kLines), high);
    _mm512_mask_storeu_epi16(c, lanes, rounded(first, second));
  }
}

// Which part along k a block of a and b is.
struct Part {
  bool first = false;
  bool last = false;
  std::int64_t steps = 0;
};

void multiply_into_floats(const Task& task, const std::uint16_t* a, const std::uint16_t* b,
                          const Target& at, const Part& part) {
  alignas(64) float edge[kBlock * kBlock];
  const bool adds = !part.first || task.product.accumulate;
  float* c = floats_of(task, at);
  const bool whole = at.is_whole();
  float* sums = whole ? c : edge;
  const std::int64_t row = whole ? task.product.n : kBlock;
  if (adds && !whole) copy_block(c, task.product.n, edge, kBlock, at);
  before_tiles();
  adds ? load_sums(sums, row) : clear_sums();
  add_product(a, b, part.steps);
  store_sums(sums, row);
  if (!whole) copy_block(edge, kBlock, c, task.product.n, at);
}

void multiply_and_round(const Task& task, const std::uint16_t* a, const std::uint16_t* b,
                        float* kept, const Target& at, const Part& part) {
  alignas(64) float block[kBlock * kBlock];
  part.first ? clear_sums() : load_sums(kept, kBlock);
  add_product(a, b, part.steps);
  store_sums(part.last ? block : kept, kBlock);
  if (part.last) round_block(task, block, at);
}

// All blocks of c that the packed blocks of a and b make.
void multiply_packed(const Task& task, Range m, Range n, float* kept, const Part& part) {
  const std::int64_t strip = part.steps * 2 * kTileBf16;
  const std::uint16_t* a = task.a;
  before_tiles();
  for (std::int64_t row = m.first; row < m.last; row += kBlock, a += strip) {
    const std::uint16_t* b = task.b;
    for (std::int64_t column = n.first; column < n.last; column += kBlock, b += strip) {
      const Target at{row, column, least(kBlock, m.last - row), least(kBlock, n.last - column)};
      if (task.product.result == DType::kF32) {
        multiply_into_floats(task, a, b, at, part);
      } else {
        multiply_and_round(task, a, b, kept, at, part);
      }
      kept += kBlock * kBlock;
    }
  }
}

// Calls each(part) on the parts of a range, `size` long.
template <typename Each>
void for_parts(Range range, std::int64_t size, const Each& each) {
  for (std::int64_t at = range.first; at < range.last; at += size) {
    each(Range{at, least(at + size, range.last)});
  }
}

void multiply_share(const Task& task, Range rows, Range columns) {
  const TileRegisters tiles;
  const Range depth{0, task.product.k};
  const Blocking& size = task.blocking;
  const auto along = [&](Range m, Range n, Range k) {
    const Part part{
        .first = k.first == 0, .last = k.last == depth.last, .steps = steps_of(k.size())};
    pack_b(task, n, k);
    for_parts(m, size.strip, [&](Range strip) {
      pack_a(task, strip, k);
      float* sums = task.sums + (strip.first - m.first) * whole_blocks(n.size());
      multiply_packed(task, strip, n, sums, part);
    });
  };
  for_parts(columns, size.n, [&](Range n) {
    for_parts(rows, size.m,
              [&](Range m) { for_parts(depth, size.k, [&](Range k) { along(m, n, k); }); });
  });
}

// Whether threads share out rows, and each packs all of b, or columns, and each packs all of a:
// what is cheaper to pack again. Turning costs shuffles.
bool shares_rows(const MatrixProduct& product) {
  const std::int64_t a = product.m * (product.a_transposed ? 3 : 1);
  const std::int64_t b = product.n * (product.b_transposed ? 2 : 1);
  return b <= a;
}

}  // namespace

void run_product(const MatrixProduct& product, const MatrixOperands& operands, int threads) {
  constexpr std::int64_t kLeastBytes = std::int64_t{32} << 10;  // more than the smallest blocking
  const bool by_rows = shares_rows(product);
  const std::int64_t all = by_rows ? product.m : product.n;
  const std::int64_t other = by_rows ? product.n : product.m;
  const auto fit = static_cast<int>(least(threads, most(product.workspace_bytes / kLeastBytes, 1)));
  auto* scratch = static_cast<std::byte*>(operands.workspace);
  const auto work = [&](std::int64_t first, std::int64_t last, int thread) {
    MatrixProduct part = product;
    const Range mine{first * kBlock, least(last * kBlock, all)};
    (by_rows ? part.m : part.n) = mine.size();
    const std::int64_t bytes = product.workspace_bytes / fit / kLineBytes * kLineBytes;
    Task task{.product = product, .operands = operands, .blocking = blocking_of(part, bytes)};
    std::byte* at = scratch + thread * bytes;
    task.a = reinterpret_cast<std::uint16_t*>(at);
    task.b = reinterpret_cast<std::uint16_t*>(at + task.blocking.bytes_of_a());
    task.sums =
        reinterpret_cast<float*>(at + task.blocking.bytes_of_a() + task.blocking.bytes_of_b());
    const Range whole{0, other};
    multiply_share(task, by_rows ? mine : whole, by_rows ? whole : mine);
  };
  parallel_ranges(fit, blocks_of(all), 1, work);
}

}  // namespace hethub::HETHUB_LEVEL
