#include "hethub/plan/rank_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/model/decoder.h"
#include "hethub/plan/interleaved.h"
#include "hethub/program/differentiate.h"

namespace hethub {
namespace {

Program program_of(const Plan& plan, const ModelConfig& model, const RankPosition& at) {
  Program program = build_forward(model, slice_of(plan, model, at.pipeline, at.stage),
                                  batch_shape(plan, at.pipeline));
  DifferentiateOptions options;
  for (const RecomputeRange& range : plan.pipelines[at.pipeline].stages[at.stage].recompute) {
    for (int layer = range.layers.begin; layer < range.layers.end; ++layer) {
      if (range.kind == Recompute::kFull) options.recompute_layers.insert(layer);
      if (range.kind == Recompute::kSelective) options.selective_layers.insert(layer);
    }
  }
  differentiate(program, options);
  return program;
}

class RankPlanner {
 public:
  RankPlanner(const std::vector<Segment>& segments, RankPlan& rank)
      : segments_(segments), rank_(rank) {}

  void run(const std::vector<ProgramUse>& uses, const RankPlanOptions& options) {
    find_held();
    const std::vector<MemoryBlock> blocks = {
        {"first moment", state_elements_ * 4, false},
        {"second moment", state_elements_ * 4, false},
        {"optimizer scalars", kAdamWScalars * 4, false},
        {"sums of squares", (std::ssize(rank_.owned) + 1) * 4, true},
        {"norm workspace", norm_workspace(), true},
        {"collective scratch", scratch_bytes(), true}};
    rank_.memory = plan_memory({&rank_.program}, uses, blocks, {options.guard_bytes});
    const auto block = [&](int index) {
      return ArenaRange{rank_.memory.blocks[index], blocks[index].bytes};
    };
    rank_.first_moment = block(0);
    rank_.second_moment = block(1);
    rank_.scalars = block(2);
    rank_.square_sums = block(3);
    rank_.scratch = block(5);
    place_segments();
    write_check_ops(block(4));
    write_norm_ops(block(4));
    write_update_ops();
  }

 private:
  // Parameters lie flat in the order of their addition, which is the segments' order.
  void find_held() {
    std::map<std::string, std::int64_t> offsets;
    std::int64_t end = 0;
    for (const int parameter : rank_.program.values_of(ValueRole::kParameter)) {
      const Value& value = rank_.program.values[parameter];
      offsets[value.name] = end;
      end += aligned(value.spec.bytes()) / 4;
    }
    for (std::size_t index = 0; index < segments_.size(); ++index) {
      const auto& ranks = segments_[index].ranks;
      const auto found = std::find(ranks.begin(), ranks.end(), rank_.rank);
      if (found == ranks.end()) continue;
      require_contiguous(segments_[index], offsets);
      rank_.segments.push_back({.segment = static_cast<int>(index),
                                .holder = static_cast<int>(found - ranks.begin()),
                                .offset = offsets.at(segments_[index].tensors.front().name)});
      find_owned(segments_[index], rank_.segments.back());
    }
  }

  // A collective runs over a segment as one range.
  static void require_contiguous(const Segment& segment,
                                 const std::map<std::string, std::int64_t>& offsets) {
    std::int64_t next = offsets.at(segment.tensors.front().name);
    for (const ModelTensor& tensor : segment.tensors) {
      require(offsets.at(tensor.name) == next, {.what = "segment " + segment.name,
                                                .found = "a gap before " + tensor.name,
                                                .expected = "tensors one after another",
                                                .fix = "keep the model's order in its programs"});
      next += padded_elements(tensor);
    }
  }

  void find_owned(const Segment& segment, const HeldSegment& held) {
    for (const SegmentRange& range : owned_ranges(segment, held.holder)) {
      const ModelTensor& tensor = segment.tensors[range.tensor];
      rank_.owned.push_back({.tensor = tensor,
                             .parameter = rank_.program.find(tensor.name),
                             .first = range.first,
                             .count = range.count,
                             .offset = held.offset + range.at,
                             .state = state_elements_});
      state_elements_ += aligned(range.count * 4) / 4;
    }
  }

  std::int64_t norm_workspace() const {
    std::int64_t most = facts_of({"", DType::kF32, SumSquares{1}}).workspace_bytes;
    for (const OwnedPiece& piece : rank_.owned) {
      most = std::max(most, facts_of(norm_op(piece.tensor, piece.count)).workspace_bytes);
    }
    return most;
  }

  std::int64_t scratch_bytes() const {
    std::int64_t most = 0;
    for (const HeldSegment& held : rank_.segments) {
      const Segment& segment = segments_[held.segment];
      for (const auto& algorithm : {gradient_algorithm(segment), parameter_algorithm(segment)}) {
        most = std::max(most, scratch_elements(algorithm, segment.owned) * 4);
      }
    }
    return most;
  }

  void place_segments() {
    for (HeldSegment& held : rank_.segments) {
      const std::int64_t bytes = segments_[held.segment].elements * 4;
      held.gradients = {rank_.memory.gradients_offset + held.offset * 4, bytes};
      held.parameters = {rank_.memory.parameters_offset + held.offset * 4, bytes};
    }
  }

  void write_check_ops(const ArenaRange& workspace) {
    const bool mixes = std::any_of(
        rank_.segments.begin(), rank_.segments.end(),
        [&](const HeldSegment& held) { return segments_[held.segment].ranks.size() > 1; });
    if (!mixes) return;
    const ArenaRange all = {rank_.memory.gradients_offset, rank_.memory.flat_bytes};
    const Op op = check_op(all.bytes / 4);
    const ArenaRange sum = {rank_.square_sums.offset + std::ssize(rank_.owned) * 4, 4};
    rank_.check_ops.push_back({op, {all}, {sum}, {workspace.offset, facts_of(op).workspace_bytes}});
  }

  void write_norm_ops(const ArenaRange& workspace) {
    for (std::size_t index = 0; index < rank_.owned.size(); ++index) {
      const OwnedPiece& piece = rank_.owned[index];
      const ArenaRange gradient = {rank_.memory.gradients_offset + piece.offset * 4,
                                   piece.count * 4};
      const ArenaRange sum = {rank_.square_sums.offset + static_cast<std::int64_t>(index) * 4, 4};
      const Op op = norm_op(piece.tensor, piece.count);
      rank_.norm_ops.push_back(
          {op, {gradient}, {sum}, {workspace.offset, facts_of(op).workspace_bytes}});
    }
  }

  void write_update_ops() {
    for (const OwnedPiece& piece : rank_.owned) {
      const std::int64_t bytes = piece.count * 4;
      const ArenaRange p = {rank_.memory.parameters_offset + piece.offset * 4, bytes};
      const ArenaRange m = {rank_.first_moment.offset + piece.state * 4, bytes};
      const ArenaRange v = {rank_.second_moment.offset + piece.state * 4, bytes};
      const ArenaRange g = {rank_.memory.gradients_offset + piece.offset * 4, bytes};
      rank_.update_ops.push_back(
          {update_op(piece.tensor, piece.count), {p, m, v, g, rank_.scalars}, {p, m, v}});
    }
    const ArenaRange all = {rank_.memory.gradients_offset, rank_.memory.flat_bytes};
    rank_.update_ops.push_back({zero_op(all.bytes / 4), {}, {all}});
  }

  const std::vector<Segment>& segments_;
  RankPlan& rank_;
  std::int64_t state_elements_ = 0;
};

}  // namespace

std::int64_t summary_numbers(std::int64_t ranks) { return kSummaryNumbers + ranks; }

Op norm_op(const ModelTensor& tensor, std::int64_t count) {
  return {"norm " + tensor.name, DType::kF32, SumSquares{count}};
}

Op update_op(const ModelTensor& tensor, std::int64_t count) {
  return {"adamw " + tensor.name, DType::kF32, AdamW{.count = count, .decay = tensor.decays()}};
}

Op check_op(std::int64_t elements) {
  return {"check gradients", DType::kF32, SumSquares{elements}};
}

Op zero_op(std::int64_t elements) {
  return {"zero gradients", DType::kF32, Fill{.count = elements, .value = 0}};
}

Schedule schedule_of(const Plan& plan, int pipeline) {
  const Pipeline& of = plan.pipelines.at(pipeline);
  if (plan.schedule == "interleaved") {
    return interleaved(static_cast<int>(of.stages.size()),
                       static_cast<int>(of.stages.front().layers.size()), of.micro_batches);
  }
  return make_schedule(plan.schedule, static_cast<int>(of.stages.size()), of.micro_batches);
}

RankPlan make_rank_plan(const Plan& plan, const ModelConfig& model,
                        const std::vector<Segment>& segments, int rank,
                        const RankPlanOptions& options) {
  const RankPosition at = position_of(plan, rank);
  RankPlan made{.rank = rank,
                .position = at,
                .kind = plan.pipelines[at.pipeline].stages[at.stage].kind,
                .program = program_of(plan, model, at)};
  RankPlanner(segments, made).run(uses_of(schedule_of(plan, at.pipeline), at.stage), options);
  return made;
}

}  // namespace hethub
