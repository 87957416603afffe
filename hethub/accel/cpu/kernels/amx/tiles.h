#pragma once

#include <cstdint>

#include <immintrin.h>

// The processor's tile registers (AMX): products of bf16, added up in f32.
//
// A tile is 16 lines of 64 bytes. Of a, a line is a row's 32 elements; of b it is a pair of rows,
// whose elements alternate, of 16 columns; of the sums it is a row of 16. Operands are packed so
// that tiles follow each other in memory: two tiles beside each other for each step of 32 along k.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kLines = 16;      // of a tile
constexpr std::int64_t kStep = 32;       // elements along k in a tile
constexpr std::int64_t kTileBf16 = 512;  // elements in a tile
constexpr std::int64_t kBlock = 32;      // rows and columns of sums that stay in tiles
constexpr std::int64_t kLineBytes = 64;

inline std::int64_t blocks_of(std::int64_t count) { return (count + kBlock - 1) / kBlock; }
inline std::int64_t steps_of(std::int64_t depth) { return (depth + kStep - 1) / kStep; }

/// Claims the tiles of the thread, all eight with whole lines, as long as it is alive.
class TileRegisters {
 public:
  TileRegisters() {
    struct alignas(64) {
      std::uint8_t palette = 1;
      std::uint8_t start_row = 0;
      std::uint8_t reserved[14] = {};
      std::uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } const shape;
    // GCC's intrinsic names the first bytes only as what it reads.
    __asm__ volatile("" ::"r"(&shape) : "memory");
    _tile_loadconfig(&shape);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

/// Up to 32 rows of a, or 32 columns of b, in memory. What lies beyond counts as zeros.
struct Strip {
  const std::uint16_t* from = nullptr;
  std::int64_t line = 0;  ///< elements from one line in memory to the next
  std::int64_t wide = 0;  ///< rows of a or columns of b: 1 to 32
  std::int64_t deep = 0;  ///< elements along k
};

inline __mmask32 first_lanes(std::int64_t count) {
  if (count >= 32) return 0xFFFFFFFFU;
  return count <= 0 ? 0 : (1U << static_cast<unsigned>(count)) - 1U;
}

// Turns 16 lines of 16 words of 32 bits: calls store(line, words) for each line of the result.
template <typename Store>
inline void turn_words(__m512i (&in)[16], const Store& store) {
  __m512i half[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    half[2 * i] = _mm512_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    half[2 * i + 1] = _mm512_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    in[4 * i] = _mm512_unpacklo_epi64(half[4 * i], half[4 * i + 2]);
    in[4 * i + 1] = _mm512_unpackhi_epi64(half[4 * i], half[4 * i + 2]);
    in[4 * i + 2] = _mm512_unpacklo_epi64(half[4 * i + 1], half[4 * i + 3]);
    in[4 * i + 3] = _mm512_unpackhi_epi64(half[4 * i + 1], half[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(in[i], in[4 + i], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(in[i], in[4 + i], 0xDD);
    const __m512i low2 = _mm512_shuffle_i32x4(in[8 + i], in[12 + i], 0x88);
    const __m512i high2 = _mm512_shuffle_i32x4(in[8 + i], in[12 + i], 0xDD);
    store(i, _mm512_shuffle_i32x4(low, low2, 0x88));
    store(i + 8, _mm512_shuffle_i32x4(low, low2, 0xDD));
    store(i + 4, _mm512_shuffle_i32x4(high, high2, 0x88));
    store(i + 12, _mm512_shuffle_i32x4(high, high2, 0xDD));
  }
}

inline void store_line(std::uint16_t* tile, std::int64_t line, __m512i value) {
  _mm512_store_si512(tile + line * kStep, value);
}

/// The two tiles of one step, at k, of a from memory that holds its rows.
inline void pack_rows(const Strip& strip, std::int64_t k, std::uint16_t* to) {
  const __mmask32 lanes = first_lanes(strip.deep - k);
  for (std::int64_t row = 0; row < kBlock; ++row) {
    const __mmask32 there = row < strip.wide ? lanes : 0;
    store_line(to, row, _mm512_maskz_loadu_epi16(there, strip.from + row * strip.line + k));
  }
}

/// The same of b from memory that holds its columns, each a line.
inline void pack_turned_columns(const Strip& strip, std::int64_t k, std::uint16_t* to) {
  const __mmask32 lanes = first_lanes(strip.deep - k);
  for (std::int64_t half = 0; half < 2; ++half, to += kTileBf16) {
    __m512i in[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const std::int64_t column = half * kLines + i;
      const __mmask32 there = column < strip.wide ? lanes : 0;
      in[i] = _mm512_maskz_loadu_epi16(there, strip.from + column * strip.line + k);
    }
    turn_words(in, [&](int line, __m512i value) { store_line(to, line, value); });
  }
}

// Rows k and k + 1 of memory that holds one line for each k.
struct Pair {
  __m512i even;
  __m512i odd;
};

inline Pair pair_at(const Strip& strip, std::int64_t k) {
  const __mmask32 lanes = first_lanes(strip.wide);
  const std::uint16_t* at = strip.from + k * strip.line;
  _mm_prefetch(at + kStep * strip.line, _MM_HINT_T0);
  _mm_prefetch(at + (kStep + 1) * strip.line, _MM_HINT_T0);
  return {_mm512_maskz_loadu_epi16(k < strip.deep ? lanes : 0, at),
          _mm512_maskz_loadu_epi16(k + 1 < strip.deep ? lanes : 0, at + strip.line)};
}

/// The same of b from memory that holds its rows.
inline void pack_pairs(const Strip& strip, std::int64_t k, std::uint16_t* to) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  for (std::int64_t pair = 0; pair < kLines; ++pair) {
    const Pair rows = pair_at(strip, k + 2 * pair);
    const __m512i low = _mm512_unpacklo_epi16(rows.even, rows.odd);
    const __m512i high = _mm512_unpackhi_epi16(rows.even, rows.odd);
    store_line(to, pair, _mm512_permutex2var_epi64(low, first, high));
    store_line(to + kTileBf16, pair, _mm512_permutex2var_epi64(low, second, high));
  }
}

/// The same of a from memory that holds its columns, each a line.
inline void pack_turned_rows(const Strip& strip, std::int64_t k, std::uint16_t* to) {
  // The lanes of unpacked lines hold four rows each: 0-3, 8-11, 16-19, 24-27 and the others.
  __m512i low[16];
  __m512i high[16];
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; ++pair) {
    const Pair rows = pair_at(strip, k + 2 * pair);
    low[pair] = _mm512_unpacklo_epi16(rows.even, rows.odd);
    high[pair] = _mm512_unpackhi_epi16(rows.even, rows.odd);
  }
  const auto row_of = [](int line) { return line / 4 * 8 + line % 4; };
  turn_words(low, [&](int line, __m512i value) { store_line(to, row_of(line), value); });
  turn_words(high, [&](int line, __m512i value) { store_line(to, row_of(line) + 4, value); });
}

// ---- Tiles 0 to 3 hold a block of 32 x 32 sums. ----------------------------------------------

inline void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// Sums from a block of floats; `row` elements lie between its rows.
inline void load_sums(const float* from, std::int64_t row) {
  const auto stride = static_cast<std::size_t>(row) * sizeof(float);
  _tile_loadd(0, from, stride);
  _tile_loadd(1, from + kLines, stride);
  _tile_loadd(2, from + kLines * row, stride);
  _tile_loadd(3, from + kLines * row + kLines, stride);
}

inline void store_sums(float* to, std::int64_t row) {
  const auto stride = static_cast<std::size_t>(row) * sizeof(float);
  _tile_stored(0, to, stride);
  _tile_stored(1, to + kLines, stride);
  _tile_stored(2, to + kLines * row, stride);
  _tile_stored(3, to + kLines * row + kLines, stride);
}

/// Adds the product of two packed strips, `steps` pairs of tiles long.
inline void add_product(const std::uint16_t* a, const std::uint16_t* b, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step, a += 2 * kTileBf16, b += 2 * kTileBf16) {
    _tile_loadd(4, a, kLineBytes);
    _tile_loadd(6, b, kLineBytes);
    _tile_loadd(7, b + kTileBf16, kLineBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, a + kTileBf16, kLineBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

/// What was written to memory is there for the tiles: their loads tell the compiler nothing.
inline void before_tiles() { __asm__ volatile("" ::: "memory"); }

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
