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

// An emulated device has no cache to keep operands out of, and its memory takes long to fill.
OpTimerOptions timing_of(const ProfileOptions& options, bool emulated) {
  OpTimerOptions timing = options.timing;
  if (!emulated) return timing;
  timing.program_bytes = 0;
  timing.optimizer_bytes = 0;
  return timing;
}

// What it takes at least is what it takes: the rest is the processor's.
void take_least(std::vector<OpTime>& times) {
  for (OpTime& time : times) {
    time.seconds = time.least;
  }
}

std::vector<double> copied_sizes(bool emulated) {
  constexpr double kMostEmulated = 256 * 1024;  // its link is slow, and has no other rate for more
  std::vector<double> sizes = message_sizes();
  if (emulated) std::erase_if(sizes, [](double size) { return size > kMostEmulated; });
  return sizes;
}

}  // namespace

KindProfile profile_kind(Backend& backend, const ProfileOptions& options) {
  KindProfile profile;
  profile.costs.emulated = backend.info().backend == "emulated";
  const OpTimerOptions timing = timing_of(options, profile.costs.emulated);
  std::vector<Op> ops = distinct_ops(covering_plans(options.model, options.covered), options.model);
  const std::vector<Op> products = square_products(DType::kF32);
  const bool emulated = profile.costs.emulated;
  ops.insert(ops.end(), products.begin(), emulated ? products.begin() + 1 : products.end());
  auto times = time_ops(backend, ops, timing);
  profile.costs.action_seconds = time_action(backend);
  if (emulated) take_least(times);
  const bool complete = std::all_of(times.begin(), times.end(),
                                    [](const OpTime& time) { return time.problem.empty(); });
  if (complete && !emulated) {
    for (const ProgramTime& time :
         calibrate(backend, options, profile.costs.action_seconds, times)) {
      profile.program_seconds += time.seconds;
      profile.ops_seconds += time.ops_seconds;
    }
  }
  take_times(times, profile);
  const Op least{"least", DType::kF32, Fill{.count = 1}};
  profile.costs.launch_seconds = time_ops(backend, {least}, timing).front().seconds;
  const CopyRates copies = time_copies(backend, copied_sizes(emulated));
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
