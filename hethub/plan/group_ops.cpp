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
  throw Error(ErrorCode::kUnsupported, {.what = "group op",
                                        .found = "an all-to-all",
                                        .expected = "a sum, a gather or a scatter",
                                        .fix = "build the program without it"});
}

CollectiveAlgorithm group_algorithm(const GroupStart& op) {
  return chosen_algorithm(training_choices(), {.op = collective_of(op.kind),
                                               .world_size = op.ranks,
                                               .bytes = std::max(op.in_count, op.out_count) * 4});
}

ChunkTable group_chunks(const GroupStart& op) {
  return even_chunks(std::max(op.in_count, op.out_count), op.ranks);
}

}  // namespace hethub
