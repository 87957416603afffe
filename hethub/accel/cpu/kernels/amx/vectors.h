#pragma once

#include <cstdint>

#include <immintrin.h>

// Vectors of 16 floats: what the kernels on tiles do between products.
namespace hethub::HETHUB_LEVEL {
namespace {

constexpr std::int64_t kFloats = 16;

/// e^x within 2 units in the last place where that is a normal float.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial for e^r. Source: Moshier, Cephes, expf.c.
inline __m512 exp_of(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341F)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4F), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1F));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0F)));
  return _mm512_scalef_ps(p, n);
}

/// Lanes of a vector whose first lane is `at`, that lie in [first, last).
inline __mmask16 lanes_in(std::int64_t at, std::int64_t first, std::int64_t last) {
  const auto below = [&](std::int64_t end) {
    const std::int64_t count = end - at;
    if (count >= kFloats) return 0xFFFFU;
    return count <= 0 ? 0U : (1U << static_cast<unsigned>(count)) - 1U;
  };
  return static_cast<__mmask16>(below(last) & ~below(first));
}

/// 32 floats, rounded to bf16.
inline __m512i rounded(__m512 low, __m512 high) {
  return __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high, low));
}

inline __m512 widened(__m256i half) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/// 32 floats as a sum of two lines of bf16: what a product loses by rounding once, it gets from the
/// second.
struct Split {
  __m512i high;
  __m512i low;
};

inline Split split(__m512 first, __m512 second) {
  const __m512i high = rounded(first, second);
  const __m512 first_left = _mm512_sub_ps(first, widened(_mm512_castsi512_si256(high)));
  const __m512 second_left = _mm512_sub_ps(second, widened(_mm512_extracti64x4_epi64(high, 1)));
  return {high, rounded(first_left, second_left)};
}

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
