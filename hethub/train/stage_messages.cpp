#include "hethub/train/stage_messages.h"

#include <algorithm>

namespace hethub {
namespace {

bool is_of_activation(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kRecvActivation;
}

// Both ends of a message make the same tag: from the action that sends it.
std::uint64_t tag_of(const Action& sent) {
  const std::uint64_t activation = is_of_activation(sent.kind) ? 1 : 0;
  return activation << 44U | static_cast<std::uint64_t>(sent.position & 0xFFF) << 32U |
         static_cast<std::uint32_t>(sent.micro_batch);
}

}  // namespace

StageMessages::StageMessages(const Plan& plan, const Schedule& schedule, RankDevice& device,
                             std::chrono::milliseconds timeout)
    : plan_(plan), rank_(device.plan()), device_(device), timeout_(timeout) {
  for (const Action& action : schedule.actions.at(rank_.position.stage)) {
    if (action.is_send() || action.is_recv()) find_parts(far_end(schedule, action).worker);
  }
  std::size_t most = 0;
  for (const auto& [key, parts] : parts_) {
    most = std::max(most, parts.size());
  }
  arriving_.reserve(most);
  for (const ProgramMemory& program : rank_.memory.programs) {
    auto& lanes = sends_.emplace_back(static_cast<std::size_t>(program.lanes));
    for (auto& lane : lanes) {
      for (std::vector<Request>& requests : lane) {
        requests.reserve(most);
      }
    }
  }
}

void StageMessages::find_parts(int other) {
  for (const bool sends : {false, true}) {
    const auto [place, is_new] = parts_.try_emplace({other, sends});
    if (is_new) place->second = parts_with(other, sends);
  }
}

StageMessages::Parts StageMessages::parts_with(int other, bool sends) const {
  const RankPosition& at = rank_.position;
  const auto messages = sends ? boundary_messages(plan_, at.pipeline, at.stage, other)
                              : boundary_messages(plan_, at.pipeline, other, at.stage);
  const IndexRange mine = boundary_rows(plan_, at);
  Parts parts;
  for (const BoundaryMessage& message : messages) {
    if ((sends ? message.from_place : message.to_place) != at.place) continue;
    const int far = sends ? message.to_place : message.from_place;
    parts.push_back({.peer = plan_.pipelines[at.pipeline].stages[other].ranks.at(far),
                     .offset = (message.rows.begin - mine.begin) * row_bytes(),
                     .bytes = message.rows.size() * row_bytes()});
  }
  return parts;
}

// Of a row of what crosses the stage's ends.
std::int64_t StageMessages::row_bytes() const {
  const std::int64_t rows = boundary_rows(plan_, rank_.position).size();
  for (const Program& program : rank_.programs) {
    for (const int value : {program.received_activation, program.sent_activation}) {
      if (value >= 0) return program.values[value].spec.bytes() / rows;
    }
  }
  return 0;
}

MessageNeeds StageMessages::needs() const {
  std::size_t most = 0;
  MessageNeeds needs;
  for (const auto& [key, parts] : parts_) {
    most = std::max(most, parts.size());
    for (const Part& part : parts) {
      needs.longest_bytes = std::max(needs.longest_bytes, part.bytes);
    }
  }
  int lanes = 0;
  for (const auto& program : sends_) {
    lanes += static_cast<int>(program.size());
  }
  needs.messages = (2 * lanes + 1) * static_cast<int>(most);
  return needs;
}

View StageMessages::boundary(const Action& what) const {
  const int index = rank_.program_of(what);
  const Program& program = rank_.programs[index];
  int value = -1;
  if (what.kind == ActionKind::kSendActivation) value = program.sent_activation;
  if (what.kind == ActionKind::kRecvActivation) value = program.received_activation;
  if (what.kind == ActionKind::kSendGradient) value = program.sent_gradient;
  if (what.kind == ActionKind::kRecvGradient) value = program.received_gradient;
  return device_.view(index, value, what.micro_batch);
}

std::array<std::vector<Request>, 2>& StageMessages::sends_of(const Action& what) {
  const int program = rank_.program_of(what);
  return sends_[program][device_.lane_of(program, what.micro_batch)];
}

void StageMessages::settle(std::vector<Request>& requests) const {
  for (Request& request : requests) {
    request.wait(deadline());
  }
  requests.clear();
}

void StageMessages::free_lane(const Action& what) {
  for (std::vector<Request>& requests : sends_of(what)) {
    settle(requests);
  }
}

void StageMessages::send(const Action& what, const WorkerAction& to) {
  std::vector<Request>& pending = sends_of(what)[is_of_activation(what.kind) ? 0 : 1];
  settle(pending);
  const View whole = boundary(what);
  for (const Part& part : parts_.at({to.worker, true})) {
    pending.push_back(world_->send(part.peer, tag_of(what), whole.slice(part.offset, part.bytes)));
  }
}

// All are posted before the first is waited for.
void StageMessages::recv(const Action& what, const WorkerAction& from) {
  if (what.kind == ActionKind::kRecvActivation) free_lane(what);
  const View whole = boundary(what);
  for (const Part& part : parts_.at({from.worker, false})) {
    arriving_.push_back(
        world_->recv(part.peer, tag_of(from.action), whole.slice(part.offset, part.bytes)));
  }
  settle(arriving_);
}

void StageMessages::finish() {
  for (auto& program : sends_) {
    for (auto& lane : program) {
      for (std::vector<Request>& requests : lane) {
        settle(requests);
      }
    }
  }
}

}  // namespace hethub
