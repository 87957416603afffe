#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hethub {

/// Philox4x32-10: four random words that are a pure function of key and counter.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// A key for philox from a seed and a name (64-bit FNV-1a of the name, mixed with the seed), so
/// that each tensor has a stream of its own, whatever rank holds it.
std::array<std::uint32_t, 2> philox_key(std::uint64_t seed, std::string_view name);

/// Element `index` of the standard normal stream of `key` (Box-Muller in double precision).
double philox_normal(std::array<std::uint32_t, 2> key, std::uint64_t index);

/// A number in [0, bound) that depends only on key and index; `bound` >= 1.
std::uint64_t philox_below(std::array<std::uint32_t, 2> key, std::uint64_t index,
                           std::uint64_t bound);

}  // namespace hethub
