#pragma once

#include <string_view>

#include "hethub/accel/cpu/kernels/kernels.h"

namespace hethub {

/// The kernels of one level of the x86-64 instruction set.
struct Level {
  std::string_view name = {};
  const Kernels* kernels = nullptr;
  bool runs_here = false;
};

/// The levels that are built, best first.
inline constexpr int kLevels = 3;
Level level(int position);

/// The best level of this processor. Throws kUnsupported if it has none.
Level best_level();

}  // namespace hethub
