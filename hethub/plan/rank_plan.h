#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  int segment = 0;          ///< position in segments_of
  int holder = 0;           ///< this rank's position in the segment's ranks
  std::int64_t offset = 0;  ///< in elements, from the start of the flat parameters (or gradients)
  ArenaRange gradients = {};
  ArenaRange parameters = {};
};

/// A part of one tensor that this rank owns: it sums its gradient's squares and updates it.
struct OwnedPiece {
  ModelTensor tensor = {};
  int parameter = -1;      ///< value in the rank's program
  std::int64_t first = 0;  ///< element of the tensor
  std::int64_t count = 0;
  std::int64_t offset = 0;  ///< in elements, from the start of the flat parameters
  std::int64_t state = 0;   ///< in elements, from the start of each moment
};

/// Everything one rank does in a step, as data: built once, run by `train`, priced by `predict`,
/// drawn by `report`.
struct RankPlan {
  int rank = 0;
  RankPosition position = {};
  std::string kind = {};
  Program program = {};  ///< of its slice; the only one in MemoryPlan::programs
  MemoryPlan memory = {};
  std::vector<HeldSegment> segments = {};
  std::vector<OwnedPiece> owned = {};

  ArenaRange first_moment = {};   ///< AdamW's m of the owned pieces
  ArenaRange second_moment = {};  ///< AdamW's v
  ArenaRange scalars = {};        ///< what the host writes for AdamW, see AdamWScalar
  ArenaRange square_sums = {};    ///< f32 per owned piece, then that of check_ops
  ArenaRange scratch = {};        ///< of collectives

  /// kCheckGradients: the sum of squares of all this rank's own gradients, so that a rank
  /// whose gradients stopped being numbers is known before they are mixed with others'. Empty where
  /// nothing is mixed.
  std::vector<StepOp> check_ops = {};
  std::vector<StepOp> norm_ops = {};    ///< kNormGradients: the sums of squares of the owned pieces
  std::vector<StepOp> update_ops = {};  ///< kUpdate: AdamW per owned piece, then zeroed gradients
};

/// What a rank gives to kSyncNorm, to be added up on the host: these, then one number for each
/// rank, of which it sets its own: what is not finite there.
enum Summary : std::uint8_t { kLossSum, kTokens, kSquareSum, kSummaryNumbers };

/// How many numbers that is among `ranks` ranks.
std::int64_t summary_numbers(std::int64_t ranks);

/// kCheckGradients' op, on the flat gradients of so many elements, where ranks mix theirs.
Op check_op(std::int64_t elements);

/// kNormGradients' op on `count` elements of a tensor's gradient.
Op norm_op(const ModelTensor& tensor, std::int64_t count);

/// kUpdate's op on `count` elements of a tensor.
Op update_op(const ModelTensor& tensor, std::int64_t count);

/// kUpdate's last op: the flat gradients, of so many elements, begin the next step as zeros.
Op zero_op(std::int64_t elements);

struct RankPlanOptions {
  std::int64_t guard_bytes = 0;  ///< see MemoryOptions
};

/// The schedule of one pipeline of a plan.
Schedule schedule_of(const Plan& plan, int pipeline);

/// Builds a rank's part of a plan that validate() has passed; `segments` are segments_of it.
RankPlan make_rank_plan(const Plan& plan, const ModelConfig& model,
                        const std::vector<Segment>& segments, int rank,
                        const RankPlanOptions& options = {});

}  // namespace hethub
