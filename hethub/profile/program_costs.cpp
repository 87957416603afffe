#include "hethub/profile/program_costs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "hethub/base/clock.h"
#include "hethub/base/deadline.h"
#include "hethub/plan/segments.h"
#include "hethub/profile/program_timer.h"

namespace hethub {
namespace {

constexpr int kMostLayers = 8;
constexpr double kMostPassSeconds = 2;  // a forward and backward pass, as the ops' times say
constexpr double kSecondsPerSize = 2.5;
constexpr int kMostRuns = 31;
constexpr double kActionTimeout = 60;

OpTime* time_of(const Op& op, std::vector<OpTime>& times) {
  const auto same = std::find_if(times.begin(), times.end(),
                                 [&](const OpTime& time) { return same_work(time.op, op); });
  return same == times.end() ? nullptr : &*same;
}

double sum_of_ops(const std::vector<Instruction>& instructions, std::vector<OpTime>& times) {
  double sum = 0;
  for (const Instruction& instruction : instructions) {
    const OpTime* time = time_of(instruction.op, times);
    if (time != nullptr) sum += time->seconds;
  }
  return sum;
}

// One rank that runs this many of the model's layers, and all that is not a layer.
RankPlan rank_of(const ProfileOptions& options, int micro_batch_size, int layers) {
  ModelConfig model = options.model;
  model.layers = layers;
  if (!model.windows.empty()) model.windows.resize(static_cast<std::size_t>(layers));
  const Plan plan = covering_plans(model, {.sequence_length = options.covered.sequence_length,
                                           .micro_batch_sizes = {micro_batch_size}})
                        .front();
  return make_rank_plan(plan, model, segments_of(plan, model), 0);
}

// As many layers as the device's memory and the time allow; none if one does not fit the memory.
// Other processes may use the same memory: half of it is left to them.
std::optional<RankPlan> largest_rank(const Backend& backend, const ProfileOptions& options,
                                     int micro_batch_size, std::vector<OpTime>& times) {
  const std::int64_t room = backend.info().memory_bytes / 2;
  for (int layers = std::min(options.model.layers, kMostLayers); layers > 0; layers /= 2) {
    RankPlan rank = rank_of(options, micro_batch_size, layers);
    const double seconds = sum_of_ops(rank.programs.front().forward, times) +
                           sum_of_ops(rank.programs.front().backward, times);
    const bool in_time = layers == 1 || seconds <= kMostPassSeconds;
    if (in_time && rank.memory.arena_bytes <= room) return rank;
  }
  return std::nullopt;
}

std::array<double, 2> run_passes(LoadedProgram& program) {
  std::array<std::vector<double>, 2> seconds;
  const double begin = seconds_now();
  for (int run = -1; run < kMostRuns; ++run) {
    if (run > 2 && seconds_now() - begin > kSecondsPerSize) break;
    const double forward = program.run(Phase::kForward);
    const double backward = program.run(Phase::kBackward);
    if (run < 0) continue;
    seconds[0].push_back(forward);
    seconds[1].push_back(backward);
  }
  return {median_of(seconds[0]), median_of(seconds[1])};
}

// An op that both phases run is left as the forward pass has it.
void scale(const std::vector<Instruction>& instructions, double factor, std::vector<OpTime>& times,
           std::vector<bool>& scaled) {
  for (const Instruction& instruction : instructions) {
    OpTime* time = time_of(instruction.op, times);
    if (time == nullptr || scaled[static_cast<std::size_t>(time - times.data())]) continue;
    scaled[static_cast<std::size_t>(time - times.data())] = true;
    time->seconds *= factor;
  }
}

}  // namespace

std::vector<ProgramTime> calibrate(Backend& backend, const ProfileOptions& options,
                                   double action_seconds, std::vector<OpTime>& times) {
  std::vector<ProgramTime> measured;
  std::vector<bool> scaled(times.size(), false);
  std::vector<int> sizes = options.covered.micro_batch_sizes;
  std::sort(sizes.begin(), sizes.end());
  for (const int size : sizes) {
    const std::optional<RankPlan> rank = largest_rank(backend, options, size, times);
    if (!rank) continue;
    LoadedProgram program(backend, *rank);
    const std::array<double, 2> seconds = run_passes(program);
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      const auto& instructions = rank->programs.front().phase(phase);
      const ProgramTime time{.micro_batch_size = size,
                             .phase = phase,
                             .seconds = seconds[phase == Phase::kForward ? 0 : 1],
                             .ops_seconds = sum_of_ops(instructions, times)};
      measured.push_back(time);
    }
    for (const ProgramTime& time : std::span(measured).last(2)) {
      const double own = std::max(time.seconds - action_seconds, time.seconds / 2);
      scale(rank->programs.front().phase(time.phase), own / time.ops_seconds, times, scaled);
    }
  }
  return measured;
}

double time_action(Backend& backend) {
  const Op least{"least", DType::kF32, Fill{.count = 1}};
  const auto memory = backend.allocate(4);
  const auto prepared = backend.prepare(least);
  const auto queue = backend.make_queue();
  const View view{memory.get(), 0, 4};
  std::vector<double> seconds;
  for (int run = 0; run < kMostRuns; ++run) {
    const double begin = seconds_now();
    queue->run(*prepared, {}, std::array{view}, {});
    queue->synchronize(after_seconds(kActionTimeout));
    seconds.push_back(seconds_now() - begin);
  }
  return median_of(seconds);
}

void keep_busy(Backend& backend, const ProfileOptions& options,
               const std::function<bool()>& enough) {
  const RankPlan rank = rank_of(options, options.covered.micro_batch_sizes.front(),
                                std::min(options.model.layers, 2));
  LoadedProgram program(backend, rank);
  while (!enough()) {
    program.run(Phase::kForward);
    program.run(Phase::kBackward);
  }
}

}  // namespace hethub
