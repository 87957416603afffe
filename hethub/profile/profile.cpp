#include "hethub/profile/profile.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/plan/segments.h"
#include "hethub/profile/link_timer.h"
#include "hethub/profile/program_timer.h"

namespace hethub {
namespace {

constexpr int kProgramRuns = 41;
constexpr double kProgramSeconds = 3;  // most that these may take

std::vector<Op> square_products() {
  std::vector<Op> ops;
  for (const std::int64_t size : {256, 512, 1024}) {
    ops.push_back({text("product ", size), DType::kF32, Linear{size, size, size, false}});
  }
  return ops;
}

// A stage with everything that a model has, but one layer only.
Plan small_plan(const ProfileOptions& options, ModelConfig& model) {
  model = options.model;
  model.layers = std::min(model.layers, 2);
  if (!model.windows.empty()) model.windows.resize(static_cast<std::size_t>(model.layers));
  const auto& sizes = options.covered.micro_batch_sizes;
  return covering_plans(model,
                        {.sequence_length = options.covered.sequence_length,
                         .micro_batch_sizes = {*std::min_element(sizes.begin(), sizes.end())}})
      .front();
}

RankPlan small_rank(const ProfileOptions& options) {
  ModelConfig model;
  const Plan plan = small_plan(options, model);
  return make_rank_plan(plan, model, segments_of(plan, model), 0);
}

double sum_of_ops(const RankPlan& rank, const std::vector<OpTime>& times) {
  double sum = 0;
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    for (const Instruction& instruction : rank.program.phase(phase)) {
      const auto same = std::find_if(times.begin(), times.end(), [&](const OpTime& time) {
        return time.op.dtype == instruction.op.dtype && time.op.body == instruction.op.body;
      });
      if (same != times.end()) sum += same->seconds;
    }
  }
  return sum;
}

void measure_program(Backend& backend, const ProfileOptions& options,
                     const std::vector<OpTime>& times, KindProfile& profile) {
  const RankPlan rank = small_rank(options);
  LoadedProgram program(backend, rank);
  std::vector<double> seconds;
  const double begin = seconds_now();
  for (int run = -2; run < kProgramRuns; ++run) {
    if (run > 2 && seconds_now() - begin > kProgramSeconds) break;
    const double both = program.run(Phase::kForward) + program.run(Phase::kBackward);
    if (run >= 0) seconds.push_back(both);
  }
  profile.program_seconds = median_of(seconds);
  profile.ops_seconds = sum_of_ops(rank, times);
  profile.costs.action_seconds = std::max(0.0, (profile.program_seconds - profile.ops_seconds) / 2);
}

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
  std::vector<Op> ops = distinct_ops(covering_plans(options.model, options.covered), options.model);
  const std::vector<Op> products = square_products();
  ops.insert(ops.end(), products.begin(), products.end());
  const auto times = time_ops(backend, ops, options.timing);
  take_times(times, profile);
  const Op least{"least", DType::kF32, Fill{.count = 1}};
  profile.costs.launch_seconds = time_ops(backend, {least}, options.timing).front().seconds;
  const CopyRates copies = time_copies(backend, message_sizes());
  profile.costs.download = copies.download;
  profile.costs.upload = copies.upload;
  if (profile.problems.empty()) measure_program(backend, options, times, profile);
  return profile;
}

void keep_busy(Backend& backend, const ProfileOptions& options,
               const std::function<bool()>& enough) {
  const RankPlan rank = small_rank(options);
  LoadedProgram program(backend, rank);
  while (!enough()) {
    program.run(Phase::kForward);
    program.run(Phase::kBackward);
  }
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace hethub
