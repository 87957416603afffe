#pragma once

#include <cstdint>

namespace hethub::HETHUB_LEVEL {
namespace {

/// e^x within 2 units in the last place; 0 below -87.33, and no more than e^88.37 (2.4e38).
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial for e^r. Source: Moshier, Cephes, expf.c.
inline float exp_of(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer
  constexpr float kLeast = -87.33F;
  constexpr float kMost = 88.37F;
  float bounded = x > kMost ? kMost : x;
  bounded = bounded < kLeast ? kLeast : bounded;
  const float shifted = bounded * 1.44269504088896341F + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const auto bits = __builtin_bit_cast(std::uint32_t, shifted);
  const float power = __builtin_bit_cast(float, (bits + 127U) << 23U);
  const float result = p * power;
  return x < kLeast ? 0.0F : result;
}

inline float sigmoid(float x) { return 1.0F / (1.0F + exp_of(-x)); }

}  // namespace
}  // namespace hethub::HETHUB_LEVEL
