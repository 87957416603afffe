#include "hethub/base/philox.h"

#include <cmath>
#include <numbers>

namespace hethub {
namespace {

std::array<std::uint32_t, 4> at(std::array<std::uint32_t, 2> key, std::uint64_t index,
                                std::uint32_t use) {
  return philox(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), use, 0}, key);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

std::array<std::uint32_t, 2> philox_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  const auto mixed =
      philox({static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
              static_cast<std::uint32_t>(name.size()), 0},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return {mixed[0], mixed[1]};
}

// Elements 2k and 2k+1 are the two numbers Box-Muller makes of block k.
double philox_normal(std::array<std::uint32_t, 2> key, std::uint64_t index) {
  const auto words = at(key, index / 2, 0);
  const auto unit = [](std::uint32_t high, std::uint32_t low) {
    const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;  // in (0, 1)
  };
  const double radius = std::sqrt(-2 * std::log(unit(words[0], words[1])));
  const double angle = 2 * std::numbers::pi * unit(words[2], words[3]);
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

// The bias of the multiply is below bound / 2^64.
std::uint64_t philox_below(std::array<std::uint32_t, 2> key, std::uint64_t index,
                           std::uint64_t bound) {
  const auto words = at(key, index, 1);
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(bits) * bound >> 64);
}

}  // namespace hethub
