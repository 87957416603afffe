#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/plan/gradient_buckets.h"
#include "hethub/plan/optimizer_ops.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/schedule.h"
#include "hethub/plan/segments.h"
#include "hethub/program/memory.h"
#include "hethub/program/program.h"

namespace hethub {

/// A range of a rank's arena.
struct ArenaRange {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// An op on ranges of the arena, outside the micro-batches' programs.
struct StepOp {
  Op op = {};
  std::vector<ArenaRange> inputs = {};
  std::vector<ArenaRange> outputs = {};
  ArenaRange workspace = {};
};

/// A segment as one of its holders sees it.
struct HeldSegment {
  int segment = 0;  ///< position in segments_of
  int holder = 0;   ///< this rank's position in the segment's ranks
  ArenaRange gradients = {};
  ArenaRange parameters = {};
};

/// A part of one tensor that this rank owns, and where it and its optimizer state lie.
struct OwnedPiece {
  TensorShard slice = {};
  ArenaRange parameters = {};
  ArenaRange gradients = {};
  ArenaRange first_moment = {};
  ArenaRange second_moment = {};
  bool mixed = false;  ///< its gradients are summed over several ranks
};

/// Everything one rank does in a step, as data: built once, run by `train`, priced by `predict`,
/// drawn by `report`.
struct RankPlan {
  int rank = 0;
  RankPosition position = {};
  std::string kind = {};
  std::vector<int> positions = {};     ///< of its pipeline that this rank holds, ascending
  std::vector<Program> programs = {};  ///< one for each; MemoryPlan::programs has the same order

  /// What the parameters of each program are of their tensors, in the order of its parameters.
  std::vector<std::vector<TensorShard>> shards = {};

  /// groups_of the plan, then those that sum scattered gradients: empty where no program has a
  /// group op.
  std::vector<std::vector<int>> groups = {};
  MemoryPlan memory = {};
  std::vector<HeldSegment> segments = {};
  std::vector<GradientBucket> buckets = {};  ///< in the order in which they are summed
  std::vector<OwnedPiece> owned = {};

  ArenaRange parameters = {};     ///< all of them, flat
  ArenaRange gradients = {};      ///< all of them, in the parameters' order
  ArenaRange first_moment = {};   ///< AdamW's m of the owned pieces
  ArenaRange second_moment = {};  ///< AdamW's v
  ArenaRange scalars = {};        ///< what the host writes for AdamW, see AdamWScalar
  ArenaRange square_sums = {};    ///< f32 per owned piece, made by norm_ops
  ArenaRange check_sums = {};     ///< f32 per bucket, made by check_ops
  ArenaRange scratch = {};        ///< of collectives

  // The ops of optimizer_ops, on their ranges.
  std::vector<StepOp> check_ops = {};   ///< one for each bucket, before its sum begins
  std::vector<StepOp> norm_ops = {};    ///< kNormGradients, one for each owned piece
  std::vector<StepOp> update_ops = {};  ///< kUpdate, one for each owned piece
  std::vector<StepOp> copy_ops = {};    ///< after kSyncParameters: copies of parameters, made anew
  std::vector<StepOp> zero_ops = {};    ///< kUpdate, at its end or, in a skipped step, alone

  /// Which of `programs` runs an action of one micro-batch.
  int program_of(const Action& action) const;
};

/// What a rank gives to kSyncNorm, to be added up on the host: these, then one number for each
/// rank, of which it sets its own: what is not finite there.
enum Summary : std::uint8_t { kLossSum, kTokens, kSquareSum, kSummaryNumbers };

/// How many numbers that is among `ranks` ranks.
std::int64_t summary_numbers(std::int64_t ranks);

struct RankPlanOptions {
  std::int64_t guard_bytes = 0;       ///< see MemoryOptions
  SegmentScratch* scratch = nullptr;  ///< kept from one rank of a plan to the next; may be none
};

/// The schedule of one pipeline of a plan.
Schedule schedule_of(const Plan& plan, int pipeline);

/// Builds a rank's part of a plan that validate() has passed; `segments` are segments_of it.
RankPlan make_rank_plan(const Plan& plan, const ModelConfig& model,
                        const std::vector<Segment>& segments, int rank,
                        const RankPlanOptions& options = {});

/// The same for the rank at a position, whose pipeline has this schedule: for many ranks in a row.
RankPlan make_rank_plan(const Plan& plan, const ModelConfig& model,
                        const std::vector<Segment>& segments, const RankPosition& at,
                        const Schedule& schedule, const RankPlanOptions& options = {});

}  // namespace hethub
