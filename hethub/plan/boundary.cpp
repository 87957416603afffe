#include "hethub/plan/boundary.h"

#include <algorithm>

namespace hethub {

IndexRange boundary_rows(const Plan& plan, const RankPosition& at) {
  const std::int64_t length = std::max<std::int64_t>(plan.sequence_length, 1);
  const IndexRange sequences = sequences_of(plan, at);
  const IndexRange rows = {sequences.begin * length, sequences.end * length};
  if (!plan.sequence_parallel) return rows;
  const int width = plan.pipelines.at(at.pipeline).stages.at(at.stage).tensor_parallel;
  const IndexRange part = part_of(rows.size(), width, at.place % width);
  return {rows.begin + part.begin, rows.begin + part.end};
}

std::vector<BoundaryMessage> boundary_messages(const Plan& plan, int pipeline, int from_stage,
                                               int to_stage) {
  const auto& stages = plan.pipelines.at(pipeline).stages;
  const auto senders = static_cast<int>(stages.at(from_stage).ranks.size());
  const auto receivers = static_cast<int>(stages.at(to_stage).ranks.size());
  std::vector<BoundaryMessage> messages;
  for (int to = 0; to < receivers; ++to) {
    const IndexRange wanted = boundary_rows(plan, {pipeline, to_stage, to});
    for (int from = 0; from < senders;) {
      const IndexRange rows = boundary_rows(plan, {pipeline, from_stage, from});
      int alike = 1;  // the senders from here on that hold the same rows
      while (from + alike < senders &&
             boundary_rows(plan, {pipeline, from_stage, from + alike}).begin == rows.begin) {
        ++alike;
      }
      const IndexRange both = {std::max(rows.begin, wanted.begin), std::min(rows.end, wanted.end)};
      if (both.size() > 0) messages.push_back({from + to % alike, to, both});
      from += alike;
    }
  }
  return messages;
}

}  // namespace hethub
