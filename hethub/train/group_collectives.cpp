#include "hethub/train/group_collectives.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/base/split.h"
#include "hethub/plan/group_ops.h"

namespace hethub {

GroupCollectives::GroupCollectives(const RankPlan& rank, DevicePort& port, int first_id,
                                   std::chrono::milliseconds timeout)
    : queue_(port.queue()), timeout_(timeout), exchanger_(port.queue(), timeout) {
  // A rank is in one group of each sort, which its first member's number tells from others.
  const int world_size = port.messenger().world_size();
  for (const std::vector<int>& ranks : rank.groups) {
    const int id = first_id + static_cast<int>(groups_.size()) * world_size + ranks.front();
    groups_.push_back(std::make_unique<Communicator>(CommunicatorOptions{&port, ranks, id}));
  }
  for (const Program& program : rank.programs) {
    for (int phase = 0; phase < kPhases; ++phase) {
      for (const Instruction& instruction : program.phase(static_cast<Phase>(phase))) {
        const auto* op = std::get_if<GroupStart>(&instruction.op.body);
        if (op != nullptr) make_ready(*op, instruction.op.dtype);
      }
    }
  }
}

void GroupCollectives::make_ready(const GroupStart& op, DType dtype) {
  if (op.kind == GroupKind::kAllToAll) return exchanger_.make_ready(op);
  if (known(op, dtype) != nullptr) return;
  Communicator& group = *groups_.at(op.group);
  known_.push_back({op, dtype, group.prepare(group_algorithm(op, dtype), group_chunks(op), dtype)});
}

GroupCollectives::Known* GroupCollectives::known(const GroupStart& op, DType dtype) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) {
    return one.op == op && one.dtype == dtype;
  });
  return found == known_.end() ? nullptr : &*found;
}

// Collectives work in place on data that has every member's part.
void GroupCollectives::start(const GroupStart& op, DType dtype, const GroupOperands& operands) {
  copy_after_ = {};
  Communicator& group = *groups_[op.group];
  if (op.kind == GroupKind::kAllToAll) return exchanger_.run(op, dtype, operands, group);
  const std::int64_t element = size_of(dtype);
  PreparedCollective& collective = *known(op, dtype)->collective;
  const View x = operands.inputs[0];
  const View y = operands.outputs[0];
  const View workspace = operands.workspace;
  View data = y;
  View scratch = workspace;
  const std::int64_t all = std::max(op.in_count, op.out_count);
  const IndexRange part = part_of(all, op.ranks, group.rank());
  if (op.kind == GroupKind::kAllGather) {
    queue_.copy(x, y.slice(part.begin * element, part.size() * element));
  } else if (op.kind == GroupKind::kReduceScatter) {
    data = workspace.slice(0, all * element);
    scratch = workspace.slice(all * element, workspace.bytes - all * element);
    queue_.copy(x, data);
    copy_after_ = {data.slice(part.begin * element, part.size() * element), y};
  } else if (x.offset != y.offset) {
    queue_.copy(x, y);
  }
  require(collective.scratch_bytes() <= scratch.bytes, [&] {
    return ErrorParts{.what = "group op",
                      .found = text(collective.scratch_bytes(), " bytes of scratch"),
                      .expected = text("at most ", scratch.bytes, ", as the plan reserved"),
                      .fix = "choose an algorithm that needs less"};
  });
  scratch.bytes = collective.scratch_bytes();
  request_ = group.start(collective, {.data = data, .scratch = scratch});
}

void GroupCollectives::wait() {
  request_.wait(std::chrono::steady_clock::now() + timeout_);
  if (copy_after_.second.buffer != nullptr) queue_.copy(copy_after_.first, copy_after_.second);
}

}  // namespace hethub
