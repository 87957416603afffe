#include "hethub/profile/profile.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/profile/link_timer.h"
#include "hethub/profile/peaks.h"
#include "hethub/profile/program_costs.h"

namespace hethub {
namespace {

void take_times(const std::vector<OpTime>& times, KindProfile& profile) {
  double& peak = profile.costs.gemm_flops_per_s[std::string(name_of(DType::kF32))];
  for (const OpTime& time : times) {
    if (!time.problem.empty()) {
      profile.problems.push_back(time.problem);
      continue;
    }
    const OpFacts facts = facts_of(time.op);
    profile.costs.ops.push_back(row_of(time.op, time.seconds, time.runs));
    if (std::holds_alternative<Linear>(time.op.body)) {
      peak = std::max(peak, facts.flops / time.seconds);
    }
    if (std::holds_alternative<AdamW>(time.op.body)) {
      profile.memory_bytes_per_s =
          std::max(profile.memory_bytes_per_s, facts.bytes() / time.seconds);
    }
  }
}

}  // namespace

KindProfile profile_kind(Backend& backend, const ProfileOptions& options) {
  KindProfile profile;
  profile.costs.emulated = backend.info().backend == "emulated";
  std::vector<Op> ops = distinct_ops(covering_plans(options.model, options.covered), options.model);
  const std::vector<Op> products = square_products(DType::kF32);
  ops.insert(ops.end(), products.begin(), products.end());
  auto times = time_ops(backend, ops, options.timing);
  profile.costs.action_seconds = time_action(backend);
  const bool complete = std::all_of(times.begin(), times.end(),
                                    [](const OpTime& time) { return time.problem.empty(); });
  if (complete) {
    for (const ProgramTime& time :
         calibrate(backend, options, profile.costs.action_seconds, times)) {
      profile.program_seconds += time.seconds;
      profile.ops_seconds += time.ops_seconds;
    }
  }
  take_times(times, profile);
  const Op least{"least", DType::kF32, Fill{.count = 1}};
  profile.costs.launch_seconds = time_ops(backend, {least}, options.timing).front().seconds;
  const CopyRates copies = time_copies(backend, message_sizes());
  profile.costs.download = copies.download;
  profile.costs.upload = copies.upload;
  return profile;
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace hethub
