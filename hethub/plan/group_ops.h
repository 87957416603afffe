#pragma once

#include "hethub/collective/algorithm.h"
#include "hethub/collective/choice.h"
#include "hethub/op/op.h"
#include "hethub/program/program.h"

namespace hethub {

/// The collective that a kind of group op is.
CollectiveOp collective_of(GroupKind kind);

/// How the members of a group perform a group op on values of a dtype: what training_choices names.
CollectiveAlgorithm group_algorithm(const GroupStart& op, DType dtype);

/// The elements of each member's part of what the op sums, gathers or scatters; of an all-to-all,
/// those of each pair if all experts are chosen alike: when it runs, the rows say how many.
ChunkTable group_chunks(const GroupStart& op);

/// Writes into each group op of a program the scratch that its algorithm needs, so that its memory
/// can be planned.
void reserve_group_scratch(Program& program);

}  // namespace hethub
