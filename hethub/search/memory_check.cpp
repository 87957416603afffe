#include "hethub/search/memory_check.h"

#include <algorithm>
#include <string_view>

#include "hethub/plan/alike_ranks.h"
#include "hethub/plan/each_rank.h"

namespace hethub {

MemoryCheck::ArenaShape MemoryCheck::shape_of(const MemoryPlan& memory) {
  ArenaShape shape{.persistent = memory.programs.front().lane_offset,
                   .running = memory.shared_bytes,
                   .between = memory.between_bytes};
  for (const ProgramMemory& program : memory.programs) {
    shape.lane_bytes.push_back(program.lane_bytes);
  }
  return shape;
}

// What plan_memory would sum up with these numbers of lanes.
std::int64_t MemoryCheck::arena_of(const ArenaShape& shape, const std::vector<int>& lanes) {
  std::int64_t running = shape.running;
  for (std::size_t program = 0; program < lanes.size(); ++program) {
    running += lanes[program] * shape.lane_bytes[program];
  }
  return shape.persistent + std::max(running, shape.between);
}

std::vector<std::int64_t> MemoryCheck::arenas_of(const Plan& plan,
                                                 const std::vector<Segment>& segments) {
  const std::lock_guard lock(mutex_);
  RankSignatures signatures(plan, model_, segments);
  std::vector<std::int64_t> arenas(plan.world_size(), 0);
  for_each_rank(plan, [&](const RankPosition& at, int rank) {
    const std::string key = signatures.but_for_lanes(at);
    auto found = known_.find(key);
    if (found == known_.end()) {
      const Schedule& schedule = signatures.schedule_of(at.pipeline);
      const RankPlanOptions options{.scratch = &scratch_};
      const RankPlan made = make_rank_plan(plan, model_, segments, at, schedule, options);
      found = known_.emplace(key, shape_of(made.memory)).first;
    }
    arenas[rank] = arena_of(found->second, signatures.lanes_of(at));
  });
  return arenas;
}

std::vector<MemoryFault> MemoryCheck::faults_of(const Plan& plan,
                                                const std::vector<Segment>& segments,
                                                const CostModel& costs) {
  const std::vector<std::int64_t> arenas = arenas_of(plan, segments);
  const std::vector<std::string> kinds = plan.kind_of_rank();
  std::map<std::string_view, std::int64_t> have;
  std::vector<MemoryFault> faults;
  for (std::size_t rank = 0; rank < arenas.size(); ++rank) {
    const auto [kind, is_new] = have.try_emplace(kinds[rank], 0);
    if (is_new) {
      kind->second = kind_named(costs.cluster(), kinds[rank]).memory_bytes -
                     costs.fixed_memory_bytes(kinds[rank]);
    }
    if (arenas[rank] <= kind->second) continue;
    faults.push_back({static_cast<int>(rank), kinds[rank], arenas[rank] - kind->second});
  }
  return faults;
}

}  // namespace hethub
