#include "hethub/plan/plan.h"

#include <algorithm>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {

void add_recompute(const RecomputeRange& range, DifferentiateOptions& options) {
  for (int layer = range.layers.begin; layer < range.layers.end; ++layer) {
    if (range.kind == Recompute::kFull) options.recompute_layers.insert(layer);
    if (range.kind == Recompute::kSelective) options.selective_layers.insert(layer);
  }
}

int Plan::world_size() const {
  int most = -1;
  for (const Pipeline& pipeline : pipelines) {
    for (const Stage& stage : pipeline.stages) {
      for (const int rank : stage.ranks) {
        most = std::max(most, rank);
      }
    }
  }
  return most + 1;
}

std::vector<std::string> Plan::kind_of_rank() const {
  std::vector<std::string> kinds(static_cast<std::size_t>(world_size()));
  for (const Pipeline& pipeline : pipelines) {
    for (const Stage& stage : pipeline.stages) {
      for (const int rank : stage.ranks) {
        if (rank >= 0) kinds[rank] = stage.kind;
      }
    }
  }
  return kinds;
}

RankPosition position_of(const Plan& plan, int rank) {
  for (std::size_t pipeline = 0; pipeline < plan.pipelines.size(); ++pipeline) {
    const auto& stages = plan.pipelines[pipeline].stages;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const auto& ranks = stages[stage].ranks;
      const auto found = std::find(ranks.begin(), ranks.end(), rank);
      if (found == ranks.end()) continue;
      return {static_cast<int>(pipeline), static_cast<int>(stage),
              static_cast<int>(found - ranks.begin())};
    }
  }
  throw Error(ErrorCode::kInvalidPlan,
              {.what = text("plan: rank ", rank),
               .found = "no stage that names it",
               .expected = text("a rank from 0 to ", plan.world_size() - 1),
               .fix = "start as many ranks as the plan names"});
}

std::vector<int> positions_of(const Pipeline& pipeline, int stage) {
  const auto stages = static_cast<int>(pipeline.stages.size());
  const auto ranges = static_cast<int>(pipeline.stages.at(stage).layers.size());
  std::vector<int> positions;
  for (int position = 0; position < stages * ranges; ++position) {
    if (stage_of_position(position, stages) == stage) positions.push_back(position);
  }
  return positions;
}

Slice slice_of(const ModelConfig& model, const LayerRange& layers) {
  return {layers.begin, layers.end, layers.begin == 0, layers.end == model.layers};
}

Slice slice_of(const Plan& plan, const ModelConfig& model, int pipeline, int position) {
  const auto& stages = plan.pipelines.at(pipeline).stages;
  const auto count = static_cast<int>(stages.size());
  const auto& ranges = stages.at(stage_of_position(position, count)).layers;
  const LayerRange& layers = ranges.at(range_of_position(position, count));
  const bool last = position + 1 == count * static_cast<int>(ranges.size());
  Slice slice = slice_of(model, layers);
  slice.embedding = slice.embedding && position == 0;
  slice.head = slice.head && last;
  return slice;
}

IndexRange sequences_of(const Plan& plan, const RankPosition& at) {
  const Pipeline& pipeline = plan.pipelines.at(at.pipeline);
  const Stage& stage = pipeline.stages.at(at.stage);
  return part_of(pipeline.micro_batch_size, stage.copies(), at.place / stage.tensor_parallel);
}

BatchShape batch_shape(const Plan& plan, const RankPosition& at) {
  BatchShape shape{.sequences = sequences_of(plan, at).size(),
                   .sequence_length = plan.sequence_length,
                   .dtype = dtype_named(plan.dtype).value_or(DType::kF32),
                   .z_loss = plan.z_loss};
  const Stage& stage = plan.pipelines.at(at.pipeline).stages.at(at.stage);
  const int run = stage.tensor_parallel * stage.expert_parallel;
  RankPosition other = at;
  for (int copy = 0; copy < stage.expert_parallel; ++copy) {
    other.place = at.place / run * run + copy * stage.tensor_parallel;
    shape.expert_sequences += sequences_of(plan, other).size();
  }
  return shape;
}

TensorLayout layout_of(const Plan& plan) {
  for (const Pipeline& pipeline : plan.pipelines) {
    for (const Stage& stage : pipeline.stages) {
      const bool splits = stage.tensor_parallel > 1 || stage.expert_parallel > 1;
      if (splits) return TensorLayout::kSplit;
    }
  }
  return TensorLayout::kWhole;
}

TensorParallel tensor_parallel_of(const Plan& plan, const RankPosition& at, TensorLayout layout) {
  const Stage& stage = plan.pipelines.at(at.pipeline).stages.at(at.stage);
  const int width = stage.tensor_parallel;
  return {.width = width,
          .place = at.place % width,
          .layout = layout,
          .expert_width = stage.expert_parallel,
          .expert_place = at.place / width % stage.expert_parallel,
          .sequence = plan.sequence_parallel};
}

std::vector<int> tensor_group_of(const Plan& plan, const RankPosition& at) {
  const Stage& stage = plan.pipelines.at(at.pipeline).stages.at(at.stage);
  const auto first = stage.ranks.begin() + at.place / stage.tensor_parallel * stage.tensor_parallel;
  return {first, first + stage.tensor_parallel};
}

std::vector<int> expert_group_of(const Plan& plan, const RankPosition& at) {
  const Stage& stage = plan.pipelines.at(at.pipeline).stages.at(at.stage);
  const int run = stage.tensor_parallel * stage.expert_parallel;
  std::vector<int> group;
  for (int copy = 0; copy < stage.expert_parallel; ++copy) {
    const int place = at.place / run * run + copy * stage.tensor_parallel;
    group.push_back(stage.ranks.at(place + at.place % stage.tensor_parallel));
  }
  return group;
}

std::vector<std::vector<int>> groups_of(const Plan& plan, const RankPosition& at) {
  std::vector<std::vector<int>> groups;
  for (std::vector<int>& group :
       std::vector{tensor_group_of(plan, at), expert_group_of(plan, at)}) {
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

std::int64_t first_sequence(const Plan& plan, int pipeline) {
  std::int64_t first = 0;
  for (int before = 0; before < pipeline; ++before) {
    first += plan.pipelines.at(before).sequences();
  }
  return first;
}

}  // namespace hethub
