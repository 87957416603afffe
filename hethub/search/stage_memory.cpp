#include "hethub/search/stage_memory.h"

#include <algorithm>

#include "hethub/model/shards.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/plan/schedule.h"

namespace hethub {
namespace {

StageBytes bytes_of(const RankPlan& rank) {
  const MemoryPlan& memory = rank.memory;
  StageBytes bytes{.held = 2 * memory.flat_bytes,
                   .state = rank.first_moment.bytes + rank.second_moment.bytes};
  std::int64_t lanes = 0;
  for (const ProgramMemory& program : memory.programs) {
    bytes.lane += program.lane_bytes;
    lanes += program.lanes * program.lane_bytes;
  }
  bytes.shared = memory.arena_bytes - bytes.held - bytes.state - lanes;
  return bytes;
}

StageBytes plus(const StageBytes& a, const StageBytes& b, std::int64_t times) {
  return {a.held + times * b.held, a.state + times * b.state, a.lane + times * b.lane,
          a.shared + times * b.shared};
}

}  // namespace

StageMemory::StageMemory(const ModelConfig& model, const JobForm& form)
    : model_(model), form_(form) {
  for (const TensorShard& shard : shards_of(model_, {0, 1, true, true}, {})) {
    largest_tensor_ = std::max(largest_tensor_, shard.count * 4);
  }
}

// Of the stages of one pipeline over a model of as many layers as `ranges` end with.
std::vector<StageBytes> StageMemory::bytes_of_stages(const std::vector<LayerRange>& ranges,
                                                     int sequences, Recompute recompute,
                                                     int width) const {
  ModelConfig small = model_;
  small.layers = ranges.back().end;
  small.windows.resize(small.layers, model_.windows.back());
  Plan plan{.sequence_length = form_.sequence_length,
            .global_batch = sequences,
            .dtype = std::string(name_of(form_.dtype)),
            .sequence_parallel = form_.sequence_parallel,
            .pipelines = {{.micro_batch_size = sequences}}};
  for (const LayerRange& range : ranges) {
    Stage& stage = plan.pipelines[0].stages.emplace_back();
    stage.tensor_parallel = width;
    for (int place = 0; place < width; ++place) {
      stage.ranks.push_back(plan.world_size());
    }
    stage.layers = {range};
    if (recompute != Recompute::kNone) stage.recompute = {{recompute, range}};
  }
  const std::vector<Segment> segments = segments_of(plan, small);
  std::vector<StageBytes> found;
  for (int rank = 0; rank < plan.world_size(); rank += width) {
    found.push_back(bytes_of(make_rank_plan(plan, small, segments, rank)));
  }
  return found;
}

StageMemory::Parts StageMemory::measure(int sequences, Recompute recompute, int width) const {
  const auto parts = bytes_of_stages({{0, 1}, {1, 2}, {2, 4}, {4, 5}}, sequences, recompute, width);
  const auto whole = bytes_of_stages({{0, 1}}, sequences, recompute, width);
  const StageBytes& layer = parts[1];
  return {.first = plus(parts[0], layer, -1),
          .last = plus(parts[3], layer, -1),
          .both = plus(whole[0], layer, -1),
          .layer = layer,
          .more = plus(parts[2], layer, -1)};
}

StageBytes StageMemory::of(LayerRange range, int sequences, Recompute recompute, int width) {
  const std::lock_guard lock(mutex_);
  const auto key = std::tuple(sequences, recompute, width);
  auto place = known_.find(key);
  if (place == known_.end())
    place = known_.emplace(key, measure(sequences, recompute, width)).first;
  const Parts& parts = place->second;
  const Slice slice = slice_of(model_, range);
  const StageBytes bytes = plus(parts.layer, parts.more, range.size() - 1);
  if (slice.embedding && slice.head) return plus(bytes, parts.both, 1);
  if (slice.embedding) return plus(bytes, parts.first, 1);
  return slice.head ? plus(bytes, parts.last, 1) : bytes;
}

std::int64_t StageMemory::arena_limit(const Plan& plan, const RankPosition& at) {
  const Pipeline& pipeline = plan.pipelines[at.pipeline];
  const Stage& stage = pipeline.stages[at.stage];
  const LayerRange range = stage.layers.front();
  std::vector<Recompute> kinds;
  int named = 0;
  for (const RecomputeRange& again : stage.recompute) {
    kinds.push_back(again.kind);
    named += again.layers.size();
  }
  if (named < range.size()) kinds.push_back(Recompute::kNone);
  const auto own = static_cast<int>(sequences_of(plan, {at.pipeline, at.stage, 0}).size());
  StageBytes most;
  for (const Recompute kind : kinds) {
    const StageBytes one = of(range, own, kind, stage.tensor_parallel);
    most = {std::max(most.held, one.held), std::max(most.state, one.state),
            std::max(most.lane, one.lane), std::max(most.shared, one.shared)};
  }
  const ScheduleEntry& schedule = schedule_entry(plan.schedule);
  const auto deep = static_cast<int>(pipeline.stages.size()) - at.stage;
  const std::int64_t alive = schedule.most_alive != nullptr
                                 ? schedule.most_alive({deep, pipeline.micro_batches})
                                 : pipeline.micro_batches;
  const std::int64_t running = alive * most.lane + most.shared;
  const std::int64_t between = std::max(plan.bucket_bytes, largest_tensor_);
  const std::int64_t all =
      most.held + most.state / std::ssize(plan.pipelines) + std::max(running, between);
  constexpr std::int64_t kRounding = 1 << 20;
  return all + all / 64 + kRounding;
}

}  // namespace hethub
