#pragma once

#include <cstdint>
#include <vector>

#include "hethub/op/op.h"
#include "hethub/plan/segments.h"

namespace hethub {

/// A segment, and which of its holders a rank is.
struct Holding {
  int segment = 0;  ///< position in segments_of
  int holder = 0;   ///< position in the segment's ranks
};

/// What each of `world_size` ranks holds, in the segments' order.
std::vector<std::vector<Holding>> holdings_of_all(const std::vector<Segment>& segments,
                                                  int world_size);

/// What one rank holds, in the segments' order.
std::vector<Holding> holdings_of(const std::vector<Segment>& segments, int rank);

/// The segments that several ranks sum, in the order in which they do: by rounds (set_rounds), in
/// each of which no rank has two, and of one round the last first, whose gradients are ready first.
std::vector<int> summed_segments(const std::vector<Segment>& segments);

/// What a rank holds together with others, in the order in which it sums their gradients, which is
/// that of summed_segments for all ranks, so no two wait for each other. Where all pipelines are
/// alike it is from last to first, as backward passes make them. Positions in `held`.
std::vector<int> buckets_of(const std::vector<Segment>& segments, const std::vector<Holding>& held);

/// The parts of tensors that a rank owns of what it holds, in the segments' order: it sums their
/// gradients' squares and updates them.
std::vector<TensorShard> owned_parts(const std::vector<Segment>& segments,
                                     const std::vector<Holding>& held);

/// The elements of a rank's flat parameters, with what pads each tensor's shard: its parts may be
/// in several segments.
std::int64_t held_elements(const std::vector<Segment>& segments, const std::vector<Holding>& held);

/// Those of its gradients: as many, less what it does not keep of scattered ones.
std::int64_t gradient_elements(const std::vector<Segment>& segments,
                               const std::vector<Holding>& held);

/// A rank's ops outside its programs.
struct OptimizerOps {
  /// kCheckGradients: the sum of squares of this rank's own gradients in each bucket, so that a
  /// rank whose gradients stopped being numbers is known before they are mixed with others'.
  std::vector<Op> checks = {};
  std::vector<Op> norms = {};    ///< kNormGradients: the sum of squares of each owned range
  std::vector<Op> updates = {};  ///< kUpdate: AdamW on each owned range
  Op zero = {};                  ///< then the flat gradients begin the next step as zeros

  /// All that kUpdate runs, in order.
  std::vector<Op> update() const {
    std::vector<Op> all = updates;
    all.push_back(zero);
    return all;
  }
};

/// The one builder of these ops: what is priced and what runs. A rank holds `elements` of
/// gradients and owns `owned` of them; `buckets` are the elements of each bucket that is summed
/// with others'.
OptimizerOps optimizer_ops(const std::vector<TensorShard>& owned, std::int64_t elements,
                           const std::vector<std::int64_t>& buckets);

/// The same of a rank of a plan.
OptimizerOps optimizer_ops(const std::vector<Segment>& segments, const std::vector<Holding>& held);

}  // namespace hethub
