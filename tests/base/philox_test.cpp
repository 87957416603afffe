#include "hethub/base/philox.h"

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace hethub {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Source: kat_vectors of Random123 1.09, philox4x32 with 10 rounds.
TEST(Philox, gives_the_known_answers) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, keys_of_other_names_and_seeds_differ) {
  std::set<std::array<std::uint32_t, 2>> keys;
  for (std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32, 1ULL << 63}) {
    for (const char* name : {"", "a", "b", "ab", "ba", "model.layers.1.mlp.up_proj.weight",
                             "model.layers.11.mlp.up_proj.weight"}) {
      keys.insert(philox_key(seed, name));
    }
  }
  EXPECT_EQ(keys.size(), 4U * 7U);
}

// The bounds are five standard errors of each moment, at a fixed seed.
TEST(Philox, its_normal_numbers_have_the_moments_of_a_standard_normal) {
  constexpr int kCount = 100'000;
  const auto key = philox_key(1, "moments");
  std::array<double, 5> moments = {};
  double of_neighbours = 0;
  for (int index = 0; index < kCount; ++index) {
    const double value = philox_normal(key, static_cast<std::uint64_t>(index));
    for (int power = 1; power <= 4; ++power) {
      moments.at(static_cast<std::size_t>(power)) += std::pow(value, power) / kCount;
    }
    of_neighbours += value * philox_normal(key, static_cast<std::uint64_t>(index) + 1) / kCount;
  }
  const double error = 5 / std::sqrt(kCount);
  EXPECT_NEAR(moments[1], 0, error);
  EXPECT_NEAR(moments[2], 1, error * std::sqrt(2));
  EXPECT_NEAR(moments[3], 0, error * std::sqrt(15));
  EXPECT_NEAR(moments[4], 3, error * std::sqrt(96));
  EXPECT_NEAR(of_neighbours, 0, error);
}

TEST(Philox, a_bounded_number_is_below_its_bound_and_each_value_is_as_likely) {
  const auto key = philox_key(2, "bounds");
  for (const std::uint64_t bound : {1ULL, 2ULL, 7ULL, 1ULL << 40, ~0ULL}) {
    for (std::uint64_t index = 0; index < 100; ++index) {
      EXPECT_LT(philox_below(key, index, bound), bound);
    }
  }
  constexpr int kBound = 7;
  constexpr int kCount = 70'000;
  std::vector<double> counts(kBound);
  for (std::uint64_t index = 0; index < kCount; ++index) {
    ++counts[philox_below(key, index, kBound)];
  }
  double chi_squared = 0;
  for (const double count : counts) {
    chi_squared += std::pow(count - kCount / kBound, 2) / (kCount / kBound);
  }
  EXPECT_LT(chi_squared, 22.5);  // 6 degrees of freedom: one in a thousand is above
}

TEST(Philox, an_index_over_32_bits_is_another_number) {
  const auto key = philox_key(3, "wide");
  EXPECT_NE(philox_normal(key, 5), philox_normal(key, 5 + (1ULL << 33)));
  EXPECT_NE(philox_below(key, 5, ~0ULL), philox_below(key, 5 + (1ULL << 32), ~0ULL));
}

}  // namespace
}  // namespace hethub
