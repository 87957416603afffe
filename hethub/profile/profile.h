#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/cost/costs.h"
#include "hethub/model/config.h"
#include "hethub/profile/covered_ops.h"
#include "hethub/profile/op_timer.h"

namespace hethub {

struct ProfileOptions {
  ModelConfig model = {};
  CoveredPlans covered = {};
  OpTimerOptions timing = {};
};

/// What was measured of one kind.
struct KindProfile {
  KindCosts costs = {};
  std::vector<std::string> problems = {};  ///< ops it cannot run, and why: they have no row
  double memory_bytes_per_s =
      0;                       ///< best rate at which an op without many products moved its bytes
  double program_seconds = 0;  ///< forward and backward passes as they ran
  double ops_seconds = 0;      ///< what their ops, timed one by one, added up to
};

/// Measures one kind: every op of covering_plans, the best matrix product, the copies to and from
/// the host, and what a program costs beside its ops. `fixed_memory_bytes` is the caller's, who
/// knows what the process had before it opened the backend.
KindProfile profile_kind(Backend& backend, const ProfileOptions& options);

/// Memory of this process that is resident, now (Linux).
std::int64_t resident_bytes();

}  // namespace hethub
