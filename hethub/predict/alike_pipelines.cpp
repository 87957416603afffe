#include "hethub/predict/alike_pipelines.h"

#include <map>
#include <string>

namespace hethub {

std::vector<int> first_alike(const Plan& plan, const std::vector<RankPlace>& cluster,
                             const std::vector<int>& devices) {
  std::map<std::string, int> kinds;
  std::map<std::vector<int>, int> known;
  std::vector<int> first;
  for (int index = 0; index < std::ssize(plan.pipelines); ++index) {
    const Pipeline& pipeline = plan.pipelines[index];
    std::vector<int> key = {pipeline.micro_batch_size, pipeline.micro_batches};
    int node = -1;
    for (const Stage& stage : pipeline.stages) {
      const int kind = kinds.try_emplace(stage.kind, static_cast<int>(kinds.size())).first->second;
      key.insert(key.end(), {kind, stage.tensor_parallel, stage.expert_parallel,
                             std::ssize(stage.layers) > 1});
      for (const LayerRange& range : stage.layers) {
        key.insert(key.end(), {range.begin, range.end});
      }
      for (const RecomputeRange& again : stage.recompute) {
        key.insert(key.end(),
                   {-1, static_cast<int>(again.kind), again.layers.begin, again.layers.end});
      }
      for (const int rank : stage.ranks) {
        const int next = cluster[devices[rank]].node;
        key.push_back(next == node ? 1 : 0);
        node = next;
      }
    }
    first.push_back(known.try_emplace(std::move(key), index).first->second);
  }
  return first;
}

}  // namespace hethub
