#include "hethub/plan/segments.h"

#include <algorithm>
#include <map>

#include "hethub/base/split.h"
#include "hethub/base/text.h"
#include "hethub/collective/choice.h"
#include "hethub/program/memory.h"

namespace hethub {
namespace {

constexpr std::int64_t kAlignedElements = kMemoryAlignment / 4;

// The ranks that hold each tensor, ascending, by name.
std::map<std::string, std::vector<int>> holders_of(const Plan& plan, const ModelConfig& model) {
  std::map<std::string, std::vector<int>> holders;
  for (int pipeline = 0; pipeline < std::ssize(plan.pipelines); ++pipeline) {
    const std::vector<Stage>& stages = plan.pipelines[pipeline].stages;
    for (int stage = 0; stage < std::ssize(stages); ++stage) {
      for (const int position : positions_of(plan.pipelines[pipeline], stage)) {
        for (const ModelTensor& tensor :
             tensors_of(model, slice_of(plan, model, pipeline, position))) {
          std::vector<int>& ranks = holders[tensor.name];
          ranks.insert(ranks.end(), stages[stage].ranks.begin(), stages[stage].ranks.end());
        }
      }
    }
  }
  for (auto& [name, ranks] : holders) {
    std::sort(ranks.begin(), ranks.end());
  }
  return holders;
}

// Equal ranges, in whole units of the memory's alignment.
ChunkTable split_evenly(std::int64_t elements, std::int64_t holders) {
  ChunkTable owned;
  for (std::int64_t holder = 0; holder < holders; ++holder) {
    owned.push_back(part_of(elements / kAlignedElements, holders, holder).size() *
                    kAlignedElements);
  }
  return owned;
}

CollectiveAlgorithm chosen(CollectiveOp op, const Segment& segment) {
  return chosen_algorithm(training_choices(), {.op = op,
                                               .world_size = static_cast<int>(segment.ranks.size()),
                                               .bytes = segment.elements * 4});
}

}  // namespace

std::int64_t padded_elements(const ModelTensor& tensor) {
  return aligned(tensor.elements() * 4) / 4;
}

std::vector<Segment> segments_of(const Plan& plan, const ModelConfig& model) {
  const auto holders = holders_of(plan, model);
  std::vector<Segment> segments;
  for (const ModelTensor& tensor : tensors_of(model)) {
    const auto found = holders.find(tensor.name);
    if (found == holders.end()) continue;  // validate() has refused the plan
    const std::int64_t elements = padded_elements(tensor);
    const bool goes_on = !segments.empty() && segments.back().ranks == found->second &&
                         (found->second.size() == 1 ||
                          (segments.back().elements + elements) * 4 <= plan.bucket_bytes);
    if (!goes_on) segments.push_back({.name = tensor.name, .ranks = found->second});
    segments.back().tensors.push_back(tensor);
    segments.back().elements += elements;
  }
  for (Segment& segment : segments) {
    if (segment.tensors.size() > 1) segment.name += text(" +", segment.tensors.size() - 1);
    segment.owned = split_evenly(segment.elements, std::ssize(segment.ranks));
  }
  return segments;
}

std::vector<SegmentRange> owned_ranges(const Segment& segment, int holder) {
  std::int64_t begin = 0;
  for (int before = 0; before < holder; ++before) {
    begin += segment.owned[before];
  }
  const std::int64_t end = begin + segment.owned[holder];
  std::vector<SegmentRange> ranges;
  std::int64_t at = 0;
  for (std::size_t tensor = 0; tensor < segment.tensors.size(); ++tensor) {
    const std::int64_t first = std::max(begin, at);
    const std::int64_t last = std::min(end, at + segment.tensors[tensor].elements());
    if (first < last) {
      ranges.push_back({.tensor = static_cast<int>(tensor),
                        .first = first - at,
                        .count = last - first,
                        .at = first});
    }
    at += padded_elements(segment.tensors[tensor]);
  }
  return ranges;
}

CollectiveAlgorithm gradient_algorithm(const Segment& segment) {
  return chosen(CollectiveOp::kReduceScatter, segment);
}

CollectiveAlgorithm parameter_algorithm(const Segment& segment) {
  return chosen(CollectiveOp::kAllGather, segment);
}

}  // namespace hethub
