#include "hethub/plan/schedule.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/plan/action_list.h"
#include "hethub/plan/interleaved.h"
#include "hethub/plan/predict_only.h"
#include "hethub/plan/zero_bubble.h"

namespace hethub {
namespace {

enum class Role : std::uint8_t { kCompute, kSend, kRecv, kStep };

constexpr std::string_view kCompute = "compute";
constexpr std::string_view kComm = "comm";

// What is fixed about each ActionKind, in the order of the enum.
struct KindRow {
  std::string_view name;
  Role role;
  std::string_view lane;
  ActionKind far_kind;  // what the other end of the message does; itself otherwise
  int far_step;         // where the other end is: +1 downstream, -1 upstream, 0 for none
};

constexpr std::array<KindRow, kActionKinds> kKinds = {{
    {"forward", Role::kCompute, kCompute, ActionKind::kForward, 0},
    {"backward", Role::kCompute, kCompute, ActionKind::kBackward, 0},
    {"backward_input", Role::kCompute, kCompute, ActionKind::kBackwardInput, 0},
    {"backward_weight", Role::kCompute, kCompute, ActionKind::kBackwardWeight, 0},
    {"send_activation", Role::kSend, kComm, ActionKind::kRecvActivation, +1},
    {"recv_activation", Role::kRecv, kComm, ActionKind::kSendActivation, -1},
    {"send_gradient", Role::kSend, kComm, ActionKind::kRecvGradient, -1},
    {"recv_gradient", Role::kRecv, kComm, ActionKind::kSendGradient, +1},
    {"check_gradients", Role::kStep, kCompute, ActionKind::kCheckGradients, 0},
    {"sync_gradients", Role::kStep, kComm, ActionKind::kSyncGradients, 0},
    {"norm_gradients", Role::kStep, kCompute, ActionKind::kNormGradients, 0},
    {"sync_norm", Role::kStep, kComm, ActionKind::kSyncNorm, 0},
    {"update", Role::kStep, kCompute, ActionKind::kUpdate, 0},
    {"sync_parameters", Role::kStep, kComm, ActionKind::kSyncParameters, 0},
}};

const KindRow& row_of(ActionKind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }

// The shape all schedules here share: `lead` forwards, then forward/backward pairs, then the
// backwards still owed. They differ only in how far each stage's forwards lead its backwards.
Schedule make(std::string name, int stages, int micro_batches,
              const std::function<int(int stage)>& lead_of) {
  require_shape(name, stages, micro_batches);
  Schedule schedule{.name = std::move(name), .micro_batches = micro_batches, .worker_of = {{}}};
  for (int stage = 0; stage < stages; ++stage) {
    const int lead = std::min(lead_of(stage), micro_batches);
    ActionList list(stages);
    for (int slot = 0; slot < micro_batches + lead; ++slot) {
      if (slot < micro_batches) list.forward(stage, slot);
      if (slot >= lead) list.backward(stage, slot - lead);
    }
    list.finish_step(stage);
    schedule.worker_of[0].push_back(stage);
    schedule.actions.push_back(list.take());
  }
  return schedule;
}

}  // namespace

std::string_view name_of(ActionKind kind) { return row_of(kind).name; }

std::span<const ActionKind> step_actions() {
  static constexpr std::array kActions = {ActionKind::kCheckGradients, ActionKind::kSyncGradients,
                                          ActionKind::kNormGradients,  ActionKind::kSyncNorm,
                                          ActionKind::kUpdate,         ActionKind::kSyncParameters};
  return kActions;
}

bool Action::is_send() const { return row_of(kind).role == Role::kSend; }
bool Action::is_recv() const { return row_of(kind).role == Role::kRecv; }
bool Action::is_transfer() const { return row_of(kind).lane == kComm; }
bool Action::is_compute() const { return row_of(kind).role == Role::kCompute; }

std::string_view lane_of(const Action& action) { return row_of(action.kind).lane; }

std::span<const Phase> phases_of(ActionKind kind) {
  static constexpr std::array kForward = {Phase::kForward};
  static constexpr std::array kBackward = {Phase::kBackward, Phase::kBackwardWeight};
  switch (kind) {
    case ActionKind::kForward:
      return kForward;
    case ActionKind::kBackward:
      return kBackward;
    case ActionKind::kBackwardInput:
      return std::span(kBackward).first(1);
    case ActionKind::kBackwardWeight:
      return std::span(kBackward).last(1);
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient:
    case ActionKind::kCheckGradients:
    case ActionKind::kSyncGradients:
    case ActionKind::kNormGradients:
    case ActionKind::kSyncNorm:
    case ActionKind::kUpdate:
    case ActionKind::kSyncParameters:
      break;
  }
  return {};
}

std::string name_of(const Action& action) {
  if (row_of(action.kind).role == Role::kStep) return std::string(name_of(action.kind));
  return text(name_of(action.kind), " ", action.micro_batch);
}

ActionLabel label_of(const Action& action) {
  return {lane_of(action), name_of(action), name_of(action.kind)};
}

bool Schedule::splits_backward() const {
  const auto& list = actions.at(0);
  return std::any_of(list.begin(), list.end(), [](const Action& action) {
    return action.kind == ActionKind::kBackwardWeight;
  });
}

void require_shape(std::string_view schedule, int stages, int micro_batches) {
  require(stages >= 1 && micro_batches >= 1, [&] {
    return ErrorParts{.what = text(schedule, " schedule"),
                      .found = text("stages=", stages, " micro_batches=", micro_batches),
                      .expected = "1 or more of each",
                      .fix = "give every pipeline a stage and a micro-batch"};
  });
}

WorkerAction far_end(const Schedule& schedule, const Action& near) {
  const KindRow& row = row_of(near.kind);
  Action far = near;
  far.kind = row.far_kind;
  far.position += row.far_step;
  return {schedule.worker_of.at(near.direction).at(far.position), far};
}

Schedule one_forward_one_backward(int stages, int micro_batches) {
  return make("1f1b", stages, micro_batches, [=](int stage) { return stages - 1 - stage; });
}

Schedule gpipe(int stages, int micro_batches) {
  return make("gpipe", stages, micro_batches, [=](int) { return micro_batches; });
}

Schedule forward_only(Schedule schedule) {
  schedule.name = "forward_only";
  for (auto& actions : schedule.actions) {
    std::erase_if(actions, [](const Action& action) {
      return action.kind != ActionKind::kForward && action.kind != ActionKind::kSendActivation &&
             action.kind != ActionKind::kRecvActivation;
    });
  }
  return schedule;
}

const std::vector<ScheduleEntry>& all_schedules() {
  using Shape = ScheduleShape;
  static const std::vector<ScheduleEntry> kAll = {
      {"1f1b",
       [](const Shape& shape) {
         return one_forward_one_backward(shape.stages, shape.micro_batches);
       },
       [](const Shape& shape) { return std::min(shape.stages, shape.micro_batches); }},
      {"gpipe", [](const Shape& shape) { return gpipe(shape.stages, shape.micro_batches); },
       [](const Shape& shape) { return shape.micro_batches; }},
      {"interleaved",
       [](const Shape& shape) {
         return interleaved(shape.stages, shape.ranges, shape.micro_batches);
       },
       nullptr, true,
       [](const Shape& shape) { return can_interleave(shape.stages, shape.micro_batches); },
       "2 stages or more, and micro-batches in whole runs of them"},
      {"zero-bubble",
       [](const Shape& shape) { return zero_bubble(shape.stages, shape.micro_batches); }}};
  return kAll;
}

const ScheduleEntry& schedule_entry(std::string_view name) {
  std::string known;
  for (const ScheduleEntry& entry : all_schedules()) {
    if (entry.name == name) return entry;
    known += text(known.empty() ? "" : ", ", entry.name);
  }
  throw Error(ErrorCode::kInvalidPlan, {.what = "plan: schedule",
                                        .found = std::string(name),
                                        .expected = "one of " + known,
                                        .fix = mend_schedule(name)});
}

Schedule make_schedule(std::string_view name, const ScheduleShape& shape) {
  return schedule_entry(name).make(shape);
}

std::vector<ProgramUse> uses_of(const Schedule& schedule, int worker) {
  std::map<std::pair<int, int>, int> programs;  // by direction and position, those of this worker
  for (std::size_t direction = 0; direction < schedule.worker_of.size(); ++direction) {
    for (int position = 0; position < schedule.positions(); ++position) {
      if (schedule.worker_of[direction][position] != worker) continue;
      programs.emplace(std::pair(direction, position), static_cast<int>(programs.size()));
    }
  }
  std::vector<std::vector<ProgramUse>> by_program(programs.size(),
                                                  std::vector<ProgramUse>(schedule.micro_batches));
  const auto& actions = schedule.actions.at(worker);
  for (std::size_t slot = 0; slot < actions.size(); ++slot) {
    const Action& action = actions[slot];
    if (row_of(action.kind).role == Role::kStep) continue;
    const int program = programs.at({action.direction, action.position});
    ProgramUse& use = by_program[program].at(action.micro_batch);
    const int now = static_cast<int>(slot);
    if (use.last_slot == 0) use = {program, action.micro_batch, now, now};
    use.last_slot = now + 1;  // until the end: 0 is for a micro-batch that never comes
  }
  std::vector<ProgramUse> uses;
  for (const std::vector<ProgramUse>& of : by_program) {
    for (ProgramUse use : of) {
      if (use.last_slot-- > 0) uses.push_back(use);
    }
  }
  return uses;
}

}  // namespace hethub
