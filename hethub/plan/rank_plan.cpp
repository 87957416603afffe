#include "hethub/plan/rank_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/model/decoder.h"
#include "hethub/plan/group_ops.h"
#include "hethub/plan/interleaved.h"
#include "hethub/plan/sharded_gradients.h"
#include "hethub/program/differentiate.h"

namespace hethub {
namespace {

// Of each scattered segment that the rank holds, by its tensor: how it shares the gradient.
std::map<std::string, ScatteredGradient> scattered_of(const std::vector<Segment>& segments,
                                                      RankPlan& rank) {
  const std::vector<Holding> held = holdings_of(segments, rank.rank);
  GradientShares shares = gradient_shares(segments, held);
  const auto first = static_cast<int>(rank.groups.size());
  std::map<std::string, ScatteredGradient> scattered;
  for (std::size_t index = 0; index < held.size(); ++index) {
    if (shares.group_of_held[index] < 0) continue;
    const Segment& segment = segments[static_cast<std::size_t>(held[index].segment)];
    scattered[segment.parts.front().tensor.name] = {
        .group = first + shares.group_of_held[index],
        .ranks = static_cast<int>(segment.ranks.size()),
        .kept = scattered_elements(segment, held[index].holder)};
  }
  std::move(shares.groups.begin(), shares.groups.end(), std::back_inserter(rank.groups));
  return scattered;
}

void scatter(Program& program, const std::map<std::string, ScatteredGradient>& all) {
  if (all.empty()) return;
  for (const int parameter : program.values_of(ValueRole::kParameter)) {
    const auto found = all.find(program.values[parameter].name);
    if (found == all.end()) continue;
    ScatteredGradient one = found->second;
    one.parameter = parameter;
    scatter_gradient(program, one);
  }
}

Program program_at(const Plan& plan, const ModelConfig& model, const RankPosition& at,
                   const Slice& slice, const TensorParallel& parallel, bool split) {
  Program program = build_forward(model, slice, batch_shape(plan, at), parallel);
  DifferentiateOptions options{.split = split};
  for (const RecomputeRange& range : plan.pipelines[at.pipeline].stages[at.stage].recompute) {
    add_recompute(range, options);
  }
  differentiate(program, options);
  return program;
}

class RankPlanner {
 public:
  RankPlanner(const std::vector<Segment>& segments, RankPlan& rank)
      : segments_(segments), rank_(rank) {
    held_ = holdings_of(segments, rank.rank);
    owned_ = owned_parts(segments, held_);
    ops_ = optimizer_ops(segments, held_);
  }

  // `times` is null where sums begin only when all micro-batches are done.
  void run(const std::vector<ProgramUse>& uses, BucketTimes* times,
           const RankPlanOptions& options) {
    make_buckets(times);
    // What is used while micro-batches are alive does not lie over theirs.
    const bool between = times == nullptr;
    SegmentScratch own;
    SegmentScratch& scratch = options.scratch != nullptr ? *options.scratch : own;
    const std::vector<MemoryBlock> blocks = {
        {"first moment", state_bytes(), false},
        {"second moment", state_bytes(), false},
        {"optimizer scalars", kAdamWScalars * 4, false},
        {"sums of squares", std::ssize(owned_) * 4, true},
        {"check sums", std::ssize(ops_.checks) * 4, between},
        {"norm workspace", norm_workspace(), between},
        {"collective scratch", scratch_bytes(scratch), between}};
    std::vector<const Program*> programs;
    for (const Program& program : rank_.programs) {
      programs.push_back(&program);
    }
    rank_.memory = plan_memory(programs, uses, blocks, {options.guard_bytes});
    const auto block = [&](int index) {
      return ArenaRange{rank_.memory.blocks[index], blocks[index].bytes};
    };
    rank_.parameters = {rank_.memory.parameters_offset, rank_.memory.flat_bytes};
    rank_.gradients = {rank_.memory.gradients_offset, rank_.memory.gradient_bytes};
    rank_.first_moment = block(0);
    rank_.second_moment = block(1);
    rank_.scalars = block(2);
    rank_.square_sums = block(3);
    rank_.check_sums = block(4);
    rank_.scratch = block(6);
    require_all_held();
    place_segments();
    place_owned();
    write_ops(block(5));
  }

 private:
  void make_buckets(BucketTimes* times) {
    for (const int held : buckets_of(segments_, held_)) {
      std::vector<std::string> names;
      for (const TensorShard& part : segments_[held_[held].segment].parts) {
        names.push_back(part.tensor.name);
      }
      rank_.buckets.push_back(
          {.held = held, .ready = times == nullptr ? BucketReady{} : times->after(names)});
    }
  }

  // What a piece takes of each block of moments: the next one begins at an aligned offset.
  static std::int64_t moment_bytes(const TensorShard& part) { return aligned(part.count * 4); }

  std::int64_t state_bytes() const {
    std::int64_t bytes = 0;
    for (const TensorShard& part : owned_) {
      bytes += moment_bytes(part);
    }
    return bytes;
  }

  std::int64_t norm_workspace() const {
    std::int64_t most = 0;
    for (const Op& op : ops_.norms) {
      most = std::max(most, facts_of(op).workspace_bytes);
    }
    for (const Op& op : ops_.checks) {
      most = std::max(most, facts_of(op).workspace_bytes);
    }
    return most;
  }

  std::int64_t scratch_bytes(SegmentScratch& scratch) const {
    std::int64_t most = 0;
    for (const Holding& held : held_) {
      most = std::max(most, scratch.bytes_of(segments_[held.segment]));
    }
    return most;
  }

  // Where a part of a tensor that the rank holds lies.
  ArenaRange range_of(const TensorShard& part, bool gradient) const {
    for (std::size_t index = 0; index < rank_.programs.size(); ++index) {
      const Program& program = rank_.programs[index];
      const int parameter = program.find(part.tensor.name);
      if (parameter < 0) continue;
      // Parameters are the first values of a program.
      const TensorShard& shard = rank_.shards[index].at(parameter);
      const int value = gradient ? program.gradient_of(parameter) : parameter;
      const bool is_part = gradient && program.values[value].spec.elements() != shard.count;
      const std::int64_t into = is_part ? 0 : (part.first - shard.first) * 4;
      return {rank_.memory.offset_of(static_cast<int>(index), value, 0) + into, part.count * 4};
    }
    throw Error(ErrorCode::kInternal, {.what = "rank plan: " + part.tensor.name,
                                       .found = "in no program of its holder",
                                       .expected = "a parameter",
                                       .fix = "build segments and programs from one plan"});
  }

  ArenaRange parameter_range(const TensorShard& part) const { return range_of(part, false); }
  ArenaRange gradient_range(const TensorShard& part) const { return range_of(part, true); }

  void place_segments() {
    for (const Holding& held : held_) {
      const Segment& segment = segments_[held.segment];
      require_contiguous(segment);
      const TensorShard& first = segment.parts.front();
      rank_.segments.push_back(
          {.segment = held.segment,
           .holder = held.holder,
           .gradients = {gradient_range(first).offset,
                         4 * (segment.scattered ? scattered_elements(segment, held.holder)
                                                : segment.elements)},
           .parameters = {parameter_range(first).offset, segment.elements * 4}});
    }
  }

  // The ops on the whole of the gradients count its elements by the segments.
  void require_all_held() const {
    const std::int64_t gradients = gradient_elements(segments_, held_) * 4;
    require(rank_.memory.gradient_bytes == gradients, [&] {
      return ErrorParts{.what = text("rank plan: gradients of rank ", rank_.rank),
                        .found = text(rank_.memory.gradient_bytes, " bytes in its programs"),
                        .expected = text(gradients, ", as its segments have"),
                        .fix = "build segments and programs from one plan"};
    });
    const std::int64_t held = held_elements(segments_, held_) * 4;
    require(rank_.memory.flat_bytes == held, [&] {
      return ErrorParts{.what = text("rank plan: parameters of rank ", rank_.rank),
                        .found = text(rank_.memory.flat_bytes, " bytes in its programs"),
                        .expected = text(held, ", as its segments have"),
                        .fix = "build segments and programs from one plan"};
    });
  }

  // A collective runs over a segment as one range.
  void require_contiguous(const Segment& segment) const {
    std::int64_t next = parameter_range(segment.parts.front()).offset;
    for (const TensorShard& part : segment.parts) {
      require(parameter_range(part).offset == next, [&] {
        return ErrorParts{.what = "segment " + segment.name,
                          .found = "a gap before " + part.tensor.name,
                          .expected = "tensors one after another",
                          .fix = "keep the order of shards_of in programs"};
      });
      next += padded_elements(part.count) * 4;
    }
  }

  void place_owned() {
    std::int64_t state = 0;
    for (const Holding& held : held_) {
      const Segment& segment = segments_[held.segment];
      for (const TensorShard& part : owned_parts(segment, held.holder)) {
        const std::int64_t bytes = part.count * 4;
        rank_.owned.push_back({.slice = part,
                               .parameters = parameter_range(part),
                               .gradients = gradient_range(part),
                               .first_moment = {rank_.first_moment.offset + state, bytes},
                               .second_moment = {rank_.second_moment.offset + state, bytes},
                               .mixed = segment.is_shared()});
        state += moment_bytes(part);
      }
    }
  }

  // One f32 of several.
  static ArenaRange number_of(const ArenaRange& numbers, std::size_t index) {
    return {numbers.offset + static_cast<std::int64_t>(index) * 4, 4};
  }

  void write_ops(const ArenaRange& workspace) {
    const auto workspace_of = [&](const Op& op) {
      return ArenaRange{workspace.offset, facts_of(op).workspace_bytes};
    };
    for (std::size_t index = 0; index < rank_.buckets.size(); ++index) {
      const Op& check = ops_.checks[index];
      rank_.check_ops.push_back({check,
                                 {rank_.segments[rank_.buckets[index].held].gradients},
                                 {number_of(rank_.check_sums, index)},
                                 workspace_of(check)});
    }
    for (std::size_t index = 0; index < rank_.owned.size(); ++index) {
      const OwnedPiece& piece = rank_.owned[index];
      const ArenaRange sum = number_of(rank_.square_sums, index);
      const Op& norm = ops_.norms[index];
      rank_.norm_ops.push_back({norm, {piece.gradients}, {sum}, workspace_of(norm)});
      const ArenaRange& p = piece.parameters;
      const ArenaRange& m = piece.first_moment;
      const ArenaRange& v = piece.second_moment;
      rank_.update_ops.push_back(
          {ops_.updates[index], {p, m, v, piece.gradients, rank_.scalars}, {p, m, v}});
    }
    rank_.zero_ops = {{ops_.zero, {}, {rank_.gradients}}};
    write_copies();
  }

  void write_copies() {
    for (std::size_t index = 0; index < rank_.programs.size(); ++index) {
      const Program& program = rank_.programs[index];
      const auto place = [&](int value) {
        return ArenaRange{rank_.memory.offset_of(static_cast<int>(index), value, 0),
                          program.values[value].spec.bytes()};
      };
      for (const int copy : program.values_of(ValueRole::kCopy)) {
        const Value& value = program.values[copy];
        const Op convert{"copy " + value.name, value.spec.dtype, Convert{value.spec.elements()}};
        rank_.copy_ops.push_back({convert, {place(value.copy_of)}, {place(copy)}});
      }
    }
  }

  const std::vector<Segment>& segments_;
  RankPlan& rank_;
  std::vector<Holding> held_ = {};
  std::vector<TensorShard> owned_ = {};
  OptimizerOps ops_ = {};
};

}  // namespace

std::int64_t summary_numbers(std::int64_t ranks) { return kSummaryNumbers + ranks; }

int RankPlan::program_of(const Action& action) const {
  const auto found = std::find(positions.begin(), positions.end(), action.position);
  require(found != positions.end(), [&] {
    return ErrorParts{.what = text("rank plan of rank ", rank, ": action"),
                      .found = name_of(action),
                      .expected = "an action on a position that it holds",
                      .fix = "build schedule and rank plan from one plan"};
  });
  return static_cast<int>(found - positions.begin());
}

// Plans give stages their layers in turn (stage_of_position); a schedule may not say otherwise.
void require_in_turn(const Schedule& schedule) {
  for (const std::vector<int>& worker_of : schedule.worker_of) {
    for (int position = 0; position < schedule.positions(); ++position) {
      const int turn = stage_of_position(position, schedule.workers());
      require(worker_of[position] == turn, [&] {
        return ErrorParts{.what = text(schedule.name, " schedule: position ", position),
                          .found = text("worker ", worker_of[position]),
                          .expected = text(turn),
                          .fix = "let its workers take the positions in turn"};
      });
    }
  }
}

Schedule schedule_of(const Plan& plan, int pipeline) {
  const Pipeline& of = plan.pipelines.at(pipeline);
  return make_schedule(plan.schedule, {.stages = static_cast<int>(of.stages.size()),
                                       .micro_batches = of.micro_batches,
                                       .ranges = static_cast<int>(of.stages.at(0).layers.size())});
}

RankPlan make_rank_plan(const Plan& plan, const ModelConfig& model,
                        const std::vector<Segment>& segments, int rank,
                        const RankPlanOptions& options) {
  const RankPosition at = position_of(plan, rank);
  return make_rank_plan(plan, model, segments, at, schedule_of(plan, at.pipeline), options);
}

RankPlan make_rank_plan(const Plan& plan, const ModelConfig& model,
                        const std::vector<Segment>& segments, const RankPosition& at,
                        const Schedule& schedule, const RankPlanOptions& options) {
  require_in_turn(schedule);
  const Stage& stage = plan.pipelines.at(at.pipeline).stages.at(at.stage);
  RankPlan made{.rank = stage.ranks.at(at.place),
                .position = at,
                .kind = stage.kind,
                .positions = positions_of(plan.pipelines[at.pipeline], at.stage)};
  const TensorParallel parallel = tensor_parallel_of(plan, at, layout_of(plan));
  made.groups = groups_of(plan, at);
  const std::map<std::string, ScatteredGradient> scattered = scattered_of(segments, made);
  for (const int position : made.positions) {
    const Slice slice = slice_of(plan, model, at.pipeline, position);
    made.programs.push_back(
        program_at(plan, model, at, slice, parallel, schedule.splits_backward()));
    scatter(made.programs.back(), scattered);
    reserve_group_scratch(made.programs.back());
    made.shards.push_back(shards_of(model, slice, parallel));
  }
  std::optional<BucketTimes> times;
  if (plan.overlap) times.emplace(schedule, at.stage, made.positions, made.programs);
  RankPlanner(segments, made).run(uses_of(schedule, at.stage), times ? &*times : nullptr, options);
  return made;
}

}  // namespace hethub
