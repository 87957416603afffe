#include "hethub/search/memory_check.h"

#include <algorithm>

#include "hethub/base/text.h"
#include "hethub/plan/rank_plan.h"

namespace hethub {

MemoryCheck::MemoryCheck(const ModelConfig& model, const CostModel& costs)
    : model_(model), costs_(costs) {}

std::int64_t MemoryCheck::arena_bytes(const Plan& plan, const std::vector<Segment>& segments,
                                      int rank) {
  const RankPosition at = position_of(plan, rank);
  const Pipeline& pipeline = plan.pipelines[at.pipeline];
  const Stage& stage = pipeline.stages[at.stage];
  // What a rank's program, its micro-batches alive at once and its optimizer state follow from.
  std::string key = text(plan.schedule, ' ', pipeline.stages.size(), ' ', at.stage, ' ',
                         pipeline.micro_batches, ' ', pipeline.micro_batch_size, ' ',
                         stage.layers.front().begin, '-', stage.layers.front().end);
  for (const RecomputeRange& range : stage.recompute) {
    key += text(" r", static_cast<int>(range.kind), range.layers.begin, '-', range.layers.end);
  }
  for (const Segment& segment : segments) {
    const auto found = std::find(segment.ranks.begin(), segment.ranks.end(), rank);
    if (found == segment.ranks.end()) continue;
    key += text(' ', segment.tensors.front().name, ':', segment.elements, '/',
                found - segment.ranks.begin(), '/', segment.ranks.size());
  }
  const auto [place, is_new] = arenas_.try_emplace(std::move(key), 0);
  if (is_new) place->second = make_rank_plan(plan, model_, segments, rank).memory.arena_bytes;
  return place->second;
}

std::vector<MemoryFault> MemoryCheck::faults_of(const Plan& plan,
                                                const std::vector<Segment>& segments) {
  std::vector<MemoryFault> faults;
  const std::vector<std::string> kinds = plan.kind_of_rank();
  for (std::size_t index = 0; index < kinds.size(); ++index) {
    const int rank = static_cast<int>(index);
    const std::int64_t have = kind_named(costs_.cluster(), kinds[index]).memory_bytes;
    const std::int64_t need =
        arena_bytes(plan, segments, rank) + costs_.fixed_memory_bytes(kinds[index]);
    if (need > have) faults.push_back({rank, kinds[index], need - have});
  }
  return faults;
}

}  // namespace hethub
