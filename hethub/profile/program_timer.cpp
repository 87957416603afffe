#include "hethub/profile/program_timer.h"

#include <algorithm>
#include <span>

#include "hethub/base/clock.h"
#include "hethub/base/deadline.h"
#include "hethub/profile/op_timer.h"

namespace hethub {
namespace {

constexpr double kDeviceTimeout = 300;

}  // namespace

LoadedProgram::LoadedProgram(Backend& backend, const RankPlan& rank) : device_(backend, rank) {
  fill();
  find_inputs();
}

void LoadedProgram::fill() {
  std::vector<float> numbers(std::size_t{1} << 16);
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    numbers[index] = 0.02F * (static_cast<float>(index * 7919 % 1024) / 512.0F - 0.999F);
  }
  const auto source = std::as_bytes(std::span(numbers));
  const std::int64_t bytes = device_.plan().memory.arena_bytes;
  for (std::int64_t at = 0; at < bytes; at += std::ssize(source)) {
    const std::int64_t part = std::min<std::int64_t>(std::ssize(source), bytes - at);
    device_.queue().upload(source.first(static_cast<std::size_t>(part)),
                           device_.view(ArenaRange{at, part}));
  }
  device_.upload_constants();
}

void LoadedProgram::find_inputs() {
  const Program& program = device_.plan().programs.front();
  for (const Instruction& instruction : program.forward) {
    for (const int input : instruction.inputs) {
      const Value& value = program.values[input];
      if (value.role != ValueRole::kInput) continue;
      inputs_.emplace_back(input, index_values(instruction.op, value.spec.elements()));
    }
  }
  if (program.losses >= 0) losses_.resize(program.values[program.losses].spec.elements());
}

double LoadedProgram::run(Phase phase) {
  const double begin = seconds_now();
  Queue& queue = device_.queue();
  if (phase == Phase::kForward) {
    for (const auto& [value, numbers] : inputs_) {
      queue.upload(std::as_bytes(std::span(numbers)), device_.view(0, value, 0));
    }
  }
  device_.run(0, phase, 0);
  if (phase == Phase::kForward && !losses_.empty()) {
    queue.download(device_.view(0, device_.plan().programs.front().losses, 0),
                   std::as_writable_bytes(std::span(losses_)));
  }
  queue.synchronize(after_seconds(kDeviceTimeout));
  return seconds_now() - begin;
}

}  // namespace hethub
