#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hethub/accel/backend.h"
#include "reference.h"

namespace hethub::conformance {

/// How an op is placed in memory.
struct Placement {
  bool reuse = false;      ///< outputs take over the inputs that `may_reuse` names
  std::int64_t shift = 0;  ///< elements by which every operand misses its 256-byte boundary
};

/// What one run left behind.
struct Outcome {
  std::vector<Values> outputs = {};
  std::vector<std::vector<std::byte>> bits = {};  ///< of each output
  std::int64_t stray_bytes = 0;  ///< changed, though neither in an output nor in the workspace
};

/// Runs an op once: every operand lies in one buffer with sentinels on both sides, and what an
/// output holds before the run (unless it updates) is not a number.
Outcome run_on(Backend& backend, const Op& op, const std::vector<Values>& inputs,
               const Placement& placement);

}  // namespace hethub::conformance
