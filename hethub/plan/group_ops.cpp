#include "hethub/plan/group_ops.h"

#include <algorithm>

#include "hethub/base/error.h"

namespace hethub {

CollectiveOp collective_of(GroupKind kind) {
  switch (kind) {
    case GroupKind::kAllReduce:
      return CollectiveOp::kAllReduce;
    case GroupKind::kAllGather:
      return CollectiveOp::kAllGather;
    case GroupKind::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    case GroupKind::kAllToAll:
      break;
  }
  return CollectiveOp::kAllToAll;
}

CollectiveAlgorithm group_algorithm(const GroupStart& op, DType dtype) {
  const std::int64_t count = std::max(op.in_count, op.out_count);
  return chosen_algorithm(training_choices(),
                          call_of(collective_of(op.kind), op.ranks, count, dtype));
}

ChunkTable group_chunks(const GroupStart& op) {
  if (op.kind == GroupKind::kAllToAll) {
    const std::size_t pairs = static_cast<std::size_t>(op.ranks) * op.ranks;
    return ChunkTable(pairs, op.exchange.load * op.exchange.width);
  }
  return even_chunks(std::max(op.in_count, op.out_count), op.ranks);
}

void reserve_group_scratch(Program& program) {
  for (auto* list : {&program.forward, &program.backward, &program.backward_weight}) {
    for (Instruction& instruction : *list) {
      auto* op = std::get_if<GroupStart>(&instruction.op.body);
      if (op == nullptr) continue;
      op->scratch = scratch_elements(group_algorithm(*op, instruction.op.dtype), group_chunks(*op));
    }
  }
}

}  // namespace hethub
