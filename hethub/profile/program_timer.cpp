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

LoadedProgram::LoadedProgram(Backend& backend, const RankPlan& rank)
    : rank_(rank),
      arena_(backend.allocate(rank.memory.arena_bytes)),
      queue_(backend.make_queue()),
      phases_(kPhases) {
  const auto prepared = [&](const Op& op) {
    for (const auto& [known, made] : prepared_) {
      if (same_work(known, op)) return made.get();
    }
    prepared_.emplace_back(op, backend.prepare(op));
    return prepared_.back().second.get();
  };
  for (int phase = 0; phase < kPhases; ++phase) {
    int index = 0;
    for (const Instruction& instruction : rank.program.phase(static_cast<Phase>(phase))) {
      Bound bound{.op = prepared(instruction.op)};
      for (const int value : instruction.inputs) {
        bound.inputs.push_back(view(value));
      }
      for (const int value : instruction.outputs) {
        bound.outputs.push_back(view(value));
      }
      bound.workspace = {arena_.get(),
                         rank.memory.workspace_of(0, static_cast<Phase>(phase), index++, 0),
                         facts_of(instruction.op).workspace_bytes};
      phases_[phase].push_back(std::move(bound));
    }
  }
  fill();
}

View LoadedProgram::view(int value) const {
  return {arena_.get(), rank_.memory.offset_of(0, value, 0),
          rank_.program.values.at(value).spec.bytes()};
}

void LoadedProgram::fill() {
  const Program& program = rank_.program;
  std::vector<float> numbers(std::size_t{1} << 16);
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    numbers[index] = 0.02F * (static_cast<float>(index * 7919 % 1024) / 512.0F - 0.999F);
  }
  const auto source = std::as_bytes(std::span(numbers));
  for (std::int64_t at = 0; at < arena_->bytes(); at += std::ssize(source)) {
    const std::int64_t part = std::min<std::int64_t>(std::ssize(source), arena_->bytes() - at);
    queue_->upload(source.first(static_cast<std::size_t>(part)), {arena_.get(), at, part});
  }
  for (const Constant& constant : program.constants) {
    queue_->upload(std::as_bytes(std::span(constant.data)), view(constant.value));
  }
  queue_->synchronize(after_seconds(kDeviceTimeout));
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
  if (phase == Phase::kForward) {
    for (const auto& [value, numbers] : inputs_) {
      queue_->upload(std::as_bytes(std::span(numbers)), view(value));
    }
  }
  for (const Bound& bound : phases_.at(static_cast<std::size_t>(phase))) {
    queue_->run(*bound.op, bound.inputs, bound.outputs, bound.workspace);
  }
  if (phase == Phase::kForward && !losses_.empty()) {
    queue_->download(view(rank_.program.losses), std::as_writable_bytes(std::span(losses_)));
  }
  queue_->synchronize(after_seconds(kDeviceTimeout));
  return seconds_now() - begin;
}

}  // namespace hethub
