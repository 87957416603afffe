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

/// The level of that name, or, if it is empty, the best of this processor. Throws kUnsupported if
/// the processor has it not.
Level level_of(std::string_view name);

}  // namespace hethub
