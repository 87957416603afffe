#pragma once

#include <vector>

#include "hethub/base/split.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// A message of an activation or a gradient from one rank of a stage to one of a neighbouring
/// stage: some rows of the micro-batch.
struct BoundaryMessage {
  int from_place = 0;    ///< in the sending stage's list of ranks
  int to_place = 0;      ///< in the receiving stage's
  IndexRange rows = {};  ///< of the whole micro-batch
};

/// The rows of a micro-batch whose activation a rank holds at its stage's ends: those of its
/// sequences or, with sequence parallel, its part of them. A plan without a
/// sequence length, as that of a published run, counts one row a sequence.
IndexRange boundary_rows(const Plan& plan, const RankPosition& at);

/// What one stage sends another of a micro-batch: each rank of the receiving stage gets the rows it
/// holds, by the intersection of what both sides hold. Rows that several ranks of the sending stage
/// hold come from one of them, in turns. Ascending by receiver, then by rows.
std::vector<BoundaryMessage> boundary_messages(const Plan& plan, int pipeline, int from_stage,
                                               int to_stage);

}  // namespace hethub
