#pragma once

#include <set>

#include "hethub/program/program.h"

namespace hethub {

/// The values that live from the forward to the backward phase: made in the forward phase, or
/// received by it, and read in the backward phase. Neither parameters nor copies of them.
std::set<int> kept_values(const Program& program);

}  // namespace hethub
