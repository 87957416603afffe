#include "hethub/plan/optimizer_ops.h"

#include <algorithm>
#include <utility>

namespace hethub {

std::vector<std::vector<Holding>> holdings_of(const std::vector<Segment>& segments,
                                              int world_size) {
  std::vector<std::vector<Holding>> held(static_cast<std::size_t>(world_size));
  for (std::size_t segment = 0; segment < segments.size(); ++segment) {
    const std::vector<int>& ranks = segments[segment].ranks;
    for (std::size_t holder = 0; holder < ranks.size(); ++holder) {
      held.at(static_cast<std::size_t>(ranks[holder]))
          .push_back({static_cast<int>(segment), static_cast<int>(holder)});
    }
  }
  return held;
}

std::vector<OwnedSlice> owned_slices(const std::vector<Segment>& segments,
                                     const std::vector<Holding>& held) {
  std::vector<OwnedSlice> owned;
  for (const Holding& holding : held) {
    const Segment& segment = segments.at(static_cast<std::size_t>(holding.segment));
    for (const SegmentRange& range : owned_ranges(segment, holding.holder)) {
      owned.push_back({segment.tensors[range.tensor], range.first, range.count});
    }
  }
  return owned;
}

OptimizerOps optimizer_ops(const std::vector<OwnedSlice>& owned, std::int64_t elements,
                           bool mixes) {
  OptimizerOps ops;
  for (const OwnedSlice& slice : owned) {
    const std::string& name = slice.tensor.name;
    ops.norms.push_back({"norm " + name, DType::kF32, SumSquares{slice.count}});
    ops.updates.push_back({"adamw " + name, DType::kF32,
                           AdamW{.count = slice.count, .decay = slice.tensor.decays()}});
  }
  if (mixes) ops.check = Op{"check gradients", DType::kF32, SumSquares{elements}};
  ops.zero = {"zero gradients", DType::kF32, Fill{.count = elements, .value = 0}};
  return ops;
}

OptimizerOps optimizer_ops(const std::vector<Segment>& segments, const std::vector<Holding>& held) {
  std::int64_t elements = 0;
  bool mixes = false;
  for (const Holding& holding : held) {
    const Segment& segment = segments.at(static_cast<std::size_t>(holding.segment));
    elements += segment.elements;
    mixes = mixes || segment.ranks.size() > 1;
  }
  return optimizer_ops(owned_slices(segments, held), elements, mixes);
}

}  // namespace hethub
