#pragma once

#include "hethub/collective/algorithm.h"
#include "hethub/op/op.h"

namespace hethub {

/// The op that a reduce of `algorithm` is, on a device: what comm prepares, profile times and
/// predict prices. `layout` is that of the rank whose step it is. kAvg adds as kSum does, and
/// divides by the number of ranks in the reduce that completes a chunk.
///
/// A copy, which a device does without an op, counts as the addition of one term of its length.
/// Throws kInvalidArgument for a message.
Op addition_of(const CollectiveAlgorithm& algorithm, const Step& step, const SlotLayout& layout,
               DType dtype, Reduction reduction = Reduction::kSum);

}  // namespace hethub
