#pragma once

#include "hethub/collective/algorithm.h"
#include "hethub/collective/choice.h"
#include "hethub/op/op.h"

namespace hethub {

/// The collective that a kind of group op is. Throws kUnsupported for an all-to-all.
CollectiveOp collective_of(GroupKind kind);

/// How the members of a group perform a group op: what training_choices names. It needs no more
/// scratch than facts_of states as the op's workspace.
CollectiveAlgorithm group_algorithm(const GroupStart& op);

/// The elements of each member's part of what the op sums, gathers or scatters.
ChunkTable group_chunks(const GroupStart& op);

}  // namespace hethub
