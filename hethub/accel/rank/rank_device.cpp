#include "hethub/accel/rank/rank_device.h"

#include <algorithm>
#include <chrono>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::chrono::minutes kSetupTime{10};

}  // namespace

RankDevice::RankDevice(Backend& backend, const RankPlan& plan)
    : backend_(backend),
      plan_(plan),
      arena_(backend.allocate(plan.memory.arena_bytes)),
      queue_(backend.make_queue()) {
  for (std::size_t program = 0; program < plan.programs.size(); ++program) {
    lanes_.push_back(bind_program(static_cast<int>(program)));
  }
  check_ops_ = bind(plan.check_ops);
  norm_ops_ = bind(plan.norm_ops);
  update_ops_ = bind(plan.update_ops);
  copy_ops_ = bind(plan.copy_ops);
  zero_ops_ = bind(plan.zero_ops);
  upload_constants();
}

std::vector<RankDevice::Phases> RankDevice::bind_program(int program) {
  const ProgramMemory& memory = plan_.memory.programs.at(program);
  std::vector<Phases> lanes(static_cast<std::size_t>(memory.lanes));
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const auto& lane_of = memory.lane_of_instance;
    const auto first = std::find(lane_of.begin(), lane_of.end(), static_cast<int>(lane));
    const auto micro_batch = static_cast<int>(first - lane_of.begin());
    for (int phase = 0; phase < kPhases; ++phase) {
      int index = 0;
      for (const Instruction& instruction :
           plan_.programs[program].phase(static_cast<Phase>(phase))) {
        lanes[lane][phase].push_back(
            bind(program, instruction, static_cast<Phase>(phase), index++, micro_batch));
      }
    }
  }
  return lanes;
}

int RankDevice::lane_of(int program, int micro_batch) const {
  return plan_.memory.programs.at(program).lane_of_instance.at(micro_batch);
}

View RankDevice::view(int program, int value, int micro_batch) const {
  return {arena_.get(), plan_.memory.offset_of(program, value, micro_batch),
          plan_.programs.at(program).values.at(value).spec.bytes()};
}

void RankDevice::run(int program, Phase phase, int micro_batch) {
  run(lanes_.at(program).at(lane_of(program, micro_batch)).at(static_cast<std::size_t>(phase)));
}

void RankDevice::run(int program, Phase phase, int micro_batch, int first, int last) {
  const auto& ops =
      lanes_.at(program).at(lane_of(program, micro_batch)).at(static_cast<std::size_t>(phase));
  run(std::span<const BoundOp>(ops).subspan(first, last - first));
}

void RankDevice::run(std::span<const BoundOp> ops) {
  for (const BoundOp& bound : ops) {
    if (bound.op == nullptr) {
      run_group_op(bound);
    } else {
      queue_->run(*bound.op, bound.inputs, bound.outputs, bound.workspace);
    }
  }
}

void RankDevice::run_group_op(const BoundOp& bound) {
  require(group_runner_ != nullptr, [&] {
    return ErrorParts{.what = "rank device: group op",
                      .found = "nobody to perform it",
                      .expected = "a group runner",
                      .fix = "set one before a program with group ops runs"};
  });
  if (bound.group == nullptr) return group_runner_->wait();
  group_runner_->start(*bound.group, bound.dtype, {bound.inputs, bound.outputs, bound.workspace});
}

// Ops of the same sizes are the same to a device, whatever they are called.
PreparedOp& RankDevice::prepared(const Op& op) {
  for (const auto& [known, made] : prepared_) {
    if (same_work(known, op)) return *made;
  }
  prepared_.emplace_back(op, backend_.prepare(op));
  return *prepared_.back().second;
}

BoundOp RankDevice::bind(int program, const Instruction& instruction, Phase phase, int index,
                         int micro_batch) {
  BoundOp bound{.group = std::get_if<GroupStart>(&instruction.op.body),
                .dtype = instruction.op.dtype};
  const bool of_group =
      bound.group != nullptr || std::holds_alternative<GroupWait>(instruction.op.body);
  if (!of_group) bound.op = &prepared(instruction.op);
  for (const int value : instruction.inputs) {
    bound.inputs.push_back(view(program, value, micro_batch));
  }
  for (const int value : instruction.outputs) {
    bound.outputs.push_back(view(program, value, micro_batch));
  }
  bound.workspace = {arena_.get(), plan_.memory.workspace_of(program, phase, index, micro_batch),
                     facts_of(instruction.op).workspace_bytes};
  return bound;
}

std::vector<BoundOp> RankDevice::bind(const std::vector<StepOp>& step_ops) {
  std::vector<BoundOp> all;
  for (const StepOp& step_op : step_ops) {
    BoundOp& bound = all.emplace_back();
    bound.op = &prepared(step_op.op);
    bound.workspace = view(step_op.workspace);
    for (const ArenaRange& range : step_op.inputs) {
      bound.inputs.push_back(view(range));
    }
    for (const ArenaRange& range : step_op.outputs) {
      bound.outputs.push_back(view(range));
    }
  }
  return all;
}

void RankDevice::upload_constants() {
  std::vector<std::vector<float>> tables;  // kept until all have arrived
  for (std::size_t program = 0; program < plan_.programs.size(); ++program) {
    for (const Constant& constant : plan_.programs[program].constants) {
      tables.push_back(constant.data());
      queue_->upload(std::as_bytes(std::span(tables.back())),
                     view(static_cast<int>(program), constant.value, 0));
    }
  }
  synchronize(std::chrono::steady_clock::now() + kSetupTime);
}

}  // namespace hethub
