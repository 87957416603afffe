#include "hethub/search/stage_memory.h"

#include <array>

#include "hethub/plan/rank_plan.h"

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

StageMemory::Parts StageMemory::measure(int sequences, Recompute recompute) const {
  constexpr std::array<LayerRange, 4> kRanges = {{{0, 1}, {1, 2}, {2, 4}, {4, 5}}};
  ModelConfig small = model_;
  small.layers = kRanges.back().end;
  small.windows.resize(small.layers, model_.windows.back());
  Plan plan{.sequence_length = sequence_length_,
            .global_batch = sequences,
            .pipelines = {{.micro_batch_size = sequences}}};
  for (const LayerRange& range : kRanges) {
    Stage& stage = plan.pipelines[0].stages.emplace_back();
    stage.ranks = {static_cast<int>(plan.pipelines[0].stages.size()) - 1};
    stage.layers = {range};
    if (recompute != Recompute::kNone) stage.recompute = {{recompute, range}};
  }
  const std::vector<Segment> segments = segments_of(plan, small);
  std::array<StageBytes, 4> found;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    found[rank] = bytes_of(make_rank_plan(plan, small, segments, static_cast<int>(rank)));
  }
  return {.first = plus(found[0], found[1], -1),
          .last = plus(found[3], found[1], -1),
          .layer = found[1],
          .more = plus(found[2], found[1], -1)};
}

StageBytes StageMemory::of(LayerRange range, int sequences, Recompute recompute) {
  const auto [place, is_new] = known_.try_emplace({sequences, recompute});
  if (is_new) place->second = measure(sequences, recompute);
  const Parts& parts = place->second;
  const Slice slice = slice_of(model_, range);
  StageBytes bytes = plus(parts.layer, parts.more, range.size() - 1);
  if (slice.embedding) bytes = plus(bytes, parts.first, 1);
  if (!slice.head) return bytes;
  StageBytes head = parts.last;
  if (slice.embedding && model_.tie_word_embeddings) {  // it is the same matrix
    head.held -= parts.first.held;
    head.state -= parts.first.state;
  }
  return plus(bytes, head, 1);
}

}  // namespace hethub
