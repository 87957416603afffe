#include "hethub/search/memory_check.h"

#include <algorithm>

#include "hethub/plan/alike_ranks.h"

namespace hethub {

MemoryCheck::MemoryCheck(const ModelConfig& model, const CostModel& costs)
    : model_(model), costs_(costs) {}

std::vector<MemoryFault> MemoryCheck::faults_of(const Plan& plan,
                                                const std::vector<Segment>& segments) {
  RankSignatures signatures(plan, model_, segments);
  std::vector<MemoryFault> faults;
  for (int pipeline = 0; pipeline < std::ssize(plan.pipelines); ++pipeline) {
    const std::vector<Stage>& stages = plan.pipelines[pipeline].stages;
    for (int index = 0; index < std::ssize(stages); ++index) {
      const Stage& stage = stages[index];
      const std::int64_t have = kind_named(costs_.cluster(), stage.kind).memory_bytes -
                                costs_.fixed_memory_bytes(stage.kind);
      for (int place = 0; place < std::ssize(stage.ranks); ++place) {
        const RankPosition at = {pipeline, index, place};
        const auto [found, is_new] = arenas_.try_emplace(signatures.of(at), 0);
        if (is_new) {
          found->second =
              make_rank_plan(plan, model_, segments, at, signatures.schedule_of(pipeline))
                  .memory.arena_bytes;
        }
        if (found->second > have) {
          faults.push_back({stage.ranks[place], stage.kind, found->second - have});
        }
      }
    }
  }
  std::sort(faults.begin(), faults.end(),
            [](const MemoryFault& a, const MemoryFault& b) { return a.rank < b.rank; });
  return faults;
}

}  // namespace hethub
