#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hethub {

/// How the values of several ranks become one.
enum class Reduction : std::uint8_t { kSum, kAvg, kMin, kMax, kProd };

inline constexpr std::array<std::string_view, 5> kReductionNames = {"sum", "avg", "min", "max",
                                                                    "prod"};

/// As users and messages spell it, e.g. "avg".
constexpr std::string_view name_of(Reduction reduction) {
  return kReductionNames[static_cast<std::size_t>(reduction)];
}

}  // namespace hethub
