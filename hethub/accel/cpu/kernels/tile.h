#pragma once

#include <cstdint>

// Small matrix products over tiles that lie in cache: what attention is made of.
namespace hethub::HETHUB_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;  // floats in a vector register
constexpr int kWide = 4;    // vectors of a row that stay in registers
#elif defined(__AVX__)
constexpr int kLanes = 8;
constexpr int kWide = 2;
#else
constexpr int kLanes = 4;
constexpr int kWide = 2;
#endif
constexpr int kRows = 6;  // rows that stay in registers

// Unaligned, and allowed to read what floats are stored.
typedef float Lanes  // NOLINT(modernize-use-using): the attributes need a typedef
    __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

inline std::int64_t round_up_to_lanes(std::int64_t count) {
  constexpr std::int64_t kMost = 16;  // the same on every level
  return (count + kMost - 1) / kMost * kMost;
}

/// c[m, n] (+)= a[m, k] · b[k, n]. The rows of b and c lie close together: n is a multiple of 16.
/// a may lie transposed, as it is read one element at a time.
struct TileProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0;     ///< elements from one row of a to the next
  std::int64_t a_column = 0;  ///< elements from one column of a to the next
  const float* b = nullptr;
  std::int64_t b_row = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  bool add = false;
};

// The part of the product that stays in registers: Rows rows from `row`, Wide vectors from
// `column`.
template <int Rows, int Wide>
inline void product_block(const TileProduct& t, std::int64_t row, std::int64_t column) {
  Lanes sums[Rows][Wide] = {};
  const float* a = t.a + row * t.a_row;
  const float* b = t.b + column;
  for (std::int64_t k = 0; k < t.k; ++k) {
    Lanes line[Wide];
#pragma GCC unroll 4
    for (int w = 0; w < Wide; ++w) {
      line[w] = *reinterpret_cast<const Lanes*>(b + k * t.b_row + w * kLanes);
    }
#pragma GCC unroll 6
    for (int r = 0; r < Rows; ++r) {
      const float factor = a[r * t.a_row + k * t.a_column];
#pragma GCC unroll 4
      for (int w = 0; w < Wide; ++w) {
        sums[r][w] += factor * line[w];
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int w = 0; w < Wide; ++w) {
      auto* c = reinterpret_cast<Lanes*>(t.c + (row + r) * t.c_row + column + w * kLanes);
      *c = t.add ? *c + sums[r][w] : sums[r][w];
    }
  }
}

template <int Rows>
inline void product_rows(const TileProduct& t, std::int64_t row) {
  std::int64_t column = 0;
  for (; column + kWide * kLanes <= t.n; column += kWide * kLanes) {
    product_block<Rows, kWide>(t, row, column);
  }
  for (; column < t.n; column += kLanes) {
    product_block<Rows, 1>(t, row, column);
  }
}

inline void multiply(const TileProduct& t) {
  std::int64_t row = 0;
  for (; row + kRows <= t.m; row += kRows) {
    product_rows<kRows>(t, row);
  }
  for (; row + 2 <= t.m; row += 2) {
    product_rows<2>(t, row);
  }
  if (row < t.m) product_rows<1>(t, row);
}

/// Copies rows of `width` elements into rows of `padded`, times `factor`; the rest becomes zero.
template <typename T>
inline void copy_rows(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t width,
                      float factor, float* to, std::int64_t padded) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* source = from + row * from_row;
    float* target = to + row * padded;
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) {
      target[j] = source[j] * factor;
    }
    for (std::int64_t j = width; j < padded; ++j) {
      target[j] = 0;
    }
  }
}

/// to[column, row] = from[row, column] for rows < `rows`; rows up to `padded` become zero.
template <typename T>
inline void transpose_rows(const T* from, std::int64_t from_row, std::int64_t rows,
                           std::int64_t width, float* to, std::int64_t padded) {
  for (std::int64_t j = 0; j < width; ++j) {
    float* target = to + j * padded;
    for (std::int64_t row = 0; row < rows; ++row) {
      target[row] = from[row * from_row + j];
    }
    for (std::int64_t row = rows; row < padded; ++row) {
      target[row] = 0;
    }
  }
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
