#include "hethub/plan/optimizer_ops.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace hethub {

std::vector<std::vector<Holding>> holdings_of_all(const std::vector<Segment>& segments,
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

namespace {

// Whether the first of two segments that several ranks hold is summed before the second.
bool is_before(const std::vector<Segment>& segments, int first, int second) {
  const int a = segments[static_cast<std::size_t>(first)].round;
  const int b = segments[static_cast<std::size_t>(second)].round;
  return a != b ? a < b : first > second;
}

}  // namespace

std::vector<int> summed_segments(const std::vector<Segment>& segments) {
  std::vector<int> shared;
  for (int index = 0; index < std::ssize(segments); ++index) {
    if (segments[index].is_shared()) shared.push_back(index);
  }
  std::sort(shared.begin(), shared.end(),
            [&](int first, int second) { return is_before(segments, first, second); });
  return shared;
}

std::vector<int> buckets_of(const std::vector<Segment>& segments,
                            const std::vector<Holding>& held) {
  std::vector<int> buckets;
  for (int index = 0; index < std::ssize(held); ++index) {
    if (segments[held[index].segment].is_shared()) buckets.push_back(index);
  }
  std::sort(buckets.begin(), buckets.end(), [&](int first, int second) {
    return is_before(segments, held[first].segment, held[second].segment);
  });
  return buckets;
}

std::vector<Holding> holdings_of(const std::vector<Segment>& segments, int rank) {
  std::vector<Holding> held;
  for (std::size_t segment = 0; segment < segments.size(); ++segment) {
    const std::vector<int>& ranks = segments[segment].ranks;  // ascending
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    if (found == ranks.end() || *found != rank) continue;
    held.push_back({static_cast<int>(segment), static_cast<int>(found - ranks.begin())});
  }
  return held;
}

std::vector<TensorShard> owned_parts(const std::vector<Segment>& segments,
                                     const std::vector<Holding>& held) {
  std::vector<TensorShard> owned;
  for (const Holding& holding : held) {
    const Segment& segment = segments.at(static_cast<std::size_t>(holding.segment));
    for (TensorShard& part : owned_parts(segment, holding.holder)) {
      owned.push_back(std::move(part));
    }
  }
  return owned;
}

std::int64_t held_elements(const std::vector<Segment>& segments, const std::vector<Holding>& held) {
  std::int64_t elements = 0;
  std::map<std::string_view, std::int64_t> split;  // of a tensor: what several segments hold
  for (const Holding& holding : held) {
    for (const TensorShard& part : segments.at(static_cast<std::size_t>(holding.segment)).parts) {
      if (part.is_whole()) {
        elements += padded_elements(part.count);
      } else {
        split[part.tensor.name] += part.count;
      }
    }
  }
  for (const auto& [name, count] : split) {
    elements += padded_elements(count);
  }
  return elements;
}

std::int64_t gradient_elements(const std::vector<Segment>& segments,
                               const std::vector<Holding>& held) {
  std::int64_t elements = held_elements(segments, held);
  for (const Holding& holding : held) {
    const Segment& segment = segments.at(static_cast<std::size_t>(holding.segment));
    if (!segment.scattered) continue;
    elements += padded_elements(scattered_elements(segment, holding.holder)) -
                padded_elements(segment.parts.front().count);
  }
  return elements;
}

OptimizerOps optimizer_ops(const std::vector<TensorShard>& owned, std::int64_t elements,
                           const std::vector<std::int64_t>& buckets) {
  OptimizerOps ops;
  for (const TensorShard& part : owned) {
    const std::string& name = part.tensor.name;
    ops.norms.push_back({"norm " + name, DType::kF32, SumSquares{part.count}});
    ops.updates.push_back(
        {"adamw " + name, DType::kF32, AdamW{.count = part.count, .decay = part.tensor.decays()}});
  }
  for (const std::int64_t bucket : buckets) {
    ops.checks.push_back({"check gradients", DType::kF32, SumSquares{bucket}});
  }
  ops.zero = {"zero gradients", DType::kF32, Fill{.count = elements, .value = 0}};
  return ops;
}

OptimizerOps optimizer_ops(const std::vector<Segment>& segments, const std::vector<Holding>& held) {
  std::vector<std::int64_t> buckets;
  for (const int bucket : buckets_of(segments, held)) {
    const Segment& segment = segments[held[bucket].segment];
    buckets.push_back(segment.scattered ? scattered_elements(segment, held[bucket].holder)
                                        : segment.elements);
  }
  return optimizer_ops(owned_parts(segments, held), gradient_elements(segments, held), buckets);
}

}  // namespace hethub
