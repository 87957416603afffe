#include "hethub/plan/segments.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "hethub/base/split.h"
#include "hethub/base/text.h"
#include "hethub/collective/choice.h"
#include "hethub/collective/generators.h"
#include "hethub/plan/each_rank.h"
#include "hethub/plan/segment_rounds.h"
#include "hethub/program/memory.h"

namespace hethub {
namespace {

constexpr std::int64_t kAlignedElements = kMemoryAlignment / 4;

// Equal ranges, in whole units of the memory's alignment; the last one has what is over.
ChunkTable split_evenly(std::int64_t elements, std::int64_t holders) {
  ChunkTable owned;
  for (std::int64_t holder = 0; holder < holders; ++holder) {
    owned.push_back(part_of(elements / kAlignedElements, holders, holder).size() *
                    kAlignedElements);
  }
  owned.back() += elements % kAlignedElements;
  return owned;
}

// What one rank holds of one tensor, and where in its flat parameters.
struct Holder {
  int rank = 0;
  std::int64_t first = 0;  // element of the tensor as it is stored
  std::int64_t count = 0;
  std::int64_t at = 0;  // element of the rank's parameters

  std::int64_t end() const { return first + count; }
};

// Gathers the holders of each tensor. What ranks hold is found once for all that hold alike.
class HolderLists {
 public:
  HolderLists(const Plan& plan, const ModelConfig& model)
      : plan_(plan), model_(model), layout_(layout_of(plan)) {}

  // By the tensor's name, ascending by rank.
  std::map<std::string, std::vector<Holder>> find() {
    for_each_rank(plan_, [&](const RankPosition& at, int rank) { add(at, rank); });
    for (auto& [name, all] : holders_) {
      std::sort(all.begin(), all.end(),
                [](const Holder& a, const Holder& b) { return a.rank < b.rank; });
    }
    return std::move(holders_);
  }

 private:
  struct Part {
    std::vector<Holder>* holders = nullptr;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // First layer, end, with embedding, with head; the group's width and the place in it, twice.
  using Key = std::tuple<int, int, bool, bool, int, int, int, int>;

  void add(const RankPosition& at, int rank) {
    const TensorParallel parallel = tensor_parallel_of(plan_, at, layout_);
    std::int64_t next = 0;
    for (const int position : positions_of(plan_.pipelines[at.pipeline], at.stage)) {
      const Slice slice = slice_of(plan_, model_, at.pipeline, position);
      for (const Part& part : parts_of(slice, parallel)) {
        part.holders->push_back({rank, part.first, part.count, next});
        next += padded_elements(part.count);
      }
    }
  }

  const std::vector<Part>& parts_of(const Slice& slice, const TensorParallel& parallel) {
    const auto [place, is_new] =
        parts_.try_emplace({slice.begin, slice.end, slice.embedding, slice.head, parallel.width,
                            parallel.place, parallel.expert_width, parallel.expert_place});
    if (!is_new) return place->second;
    for (const TensorShard& shard : shards_of(model_, slice, parallel)) {
      place->second.push_back({&holders_[shard.tensor.name], shard.first, shard.count});
    }
    return place->second;
  }

  const Plan& plan_;
  const ModelConfig& model_;
  TensorLayout layout_;
  std::map<std::string, std::vector<Holder>> holders_ = {};
  std::map<Key, std::vector<Part>> parts_ = {};
};

// Where the holders of a tensor begin and end to hold it, ascending.
std::set<std::int64_t> cuts_of(const std::vector<Holder>& holders) {
  std::set<std::int64_t> cuts;
  for (const Holder& holder : holders) {
    cuts.insert(holder.first);
    cuts.insert(holder.end());
  }
  return cuts;
}

// Gathers parts into segments. Of several that the same ranks hold, the latest goes on where the
// next part follows it in the memory of all of them.
class SegmentBuilder {
 public:
  explicit SegmentBuilder(const Plan& plan)
      : bucket_bytes_(plan.bucket_bytes), kind_of_rank_(plan.kind_of_rank()) {
    if (plan.zero_stage < 2) return;
    stage_of_rank_.resize(kind_of_rank_.size());
    for_each_rank(plan, [&](const RankPosition& at, int rank) { stage_of_rank_[rank] = at.stage; });
  }

  void add(const TensorShard& whole, const std::vector<Holder>& holders) {
    const std::set<std::int64_t> cuts = cuts_of(holders);
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      TensorShard part = whole;
      part.first = *cut;
      part.count = *std::next(cut) - *cut;
      add_part(std::move(part), holders);
    }
  }

  std::vector<Segment> take() {
    for (Segment& segment : segments_) {
      segment.name = segment.parts.front().tensor.name;
      if (segment.parts.size() > 1) segment.name += text(" +", segment.parts.size() - 1);
      const auto holders = std::ssize(segment.ranks);
      segment.owned = split_evenly(segment.elements, holders);
      if (segment.scattered) own_alike(segment);
    }
    set_rounds(segments_, holders_);
    return std::move(segments_);
  }

 private:
  void add_part(TensorShard part, const std::vector<Holder>& holders) {
    std::vector<int> ranks;
    std::vector<std::int64_t> at;
    bool ends_all = true;
    for (const Holder& holder : holders) {
      if (holder.first > part.first || holder.end() < part.end()) continue;
      ranks.push_back(holder.rank);
      at.push_back(holder.at + part.first - holder.first);
      ends_all = ends_all && holder.first == part.first && holder.end() == part.end();
    }
    if (ranks.empty()) return;  // validate() has refused the plan
    const std::int64_t elements = ends_all ? padded_elements(part.count) : part.count;
    const bool scattered = ends_all && part.tensor.decays() && are_of_one_stage(ranks);
    const auto [known, is_new] = known_.try_emplace(ranks, Known{segments_.size(), known_.size()});
    Known& latest = known->second;
    if (is_new) {
      latest.kinds = kinds_among(ranks);
    } else if (scattered || !goes_on(latest.segment, at, elements)) {
      latest.segment = segments_.size();
    }
    if (latest.segment == segments_.size()) {
      segments_.push_back(
          {.ranks = std::move(ranks), .kinds = latest.kinds, .scattered = scattered});
      next_.emplace_back();
      holders_.push_back(static_cast<int>(latest.number));
    }
    Segment& segment = segments_[latest.segment];
    segment.parts.push_back(std::move(part));
    segment.elements += elements;
    for (std::int64_t& element : at) {
      element += elements;
    }
    next_[latest.segment] = std::move(at);
  }

  // Whether, with ZeRO 2, several ranks hold it at the same place of their pipelines.
  bool are_of_one_stage(const std::vector<int>& ranks) const {
    return ranks.size() > 1 && !stage_of_rank_.empty() &&
           std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
             return stage_of_rank_[rank] == stage_of_rank_[ranks.front()];
           });
  }

  // As a group op scatters what its members have.
  static void own_alike(Segment& segment) {
    const std::int64_t count = segment.parts.front().count;
    segment.owned = even_chunks(count, static_cast<int>(segment.ranks.size()));
    segment.owned.back() += segment.elements - count;
  }

  std::vector<std::vector<int>> kinds_among(const std::vector<int>& ranks) const {
    std::map<std::string_view, std::vector<int>> of_kind;
    for (std::size_t holder = 0; holder < ranks.size(); ++holder) {
      of_kind[kind_of_rank_.at(ranks[holder])].push_back(static_cast<int>(holder));
    }
    if (of_kind.size() < 2 || of_kind.size() == ranks.size()) return {};
    std::vector<std::vector<int>> kinds;
    for (auto& [kind, holders] : of_kind) {
      kinds.push_back(std::move(holders));
    }
    return kinds;
  }

  bool goes_on(std::size_t segment, const std::vector<std::int64_t>& at,
               std::int64_t elements) const {
    const Segment& open = segments_[segment];
    if (open.scattered) return false;
    return next_[segment] == at &&
           (at.size() == 1 || (open.elements + elements) * 4 <= bucket_bytes_);
  }

  // Of all segments that the same ranks hold.
  struct Known {
    std::size_t segment = 0;  // the latest
    std::size_t number = 0;   // of these ranks among all that were found
    std::vector<std::vector<int>> kinds = {};
  };

  std::int64_t bucket_bytes_;
  std::vector<std::string> kind_of_rank_;
  std::vector<int> stage_of_rank_ = {};  // with ZeRO 2
  std::vector<Segment> segments_ = {};
  std::vector<std::vector<std::int64_t>> next_ = {};  // by segment and holder: where it ends
  std::vector<int> holders_ = {};                     // by segment: Known::number
  std::map<std::vector<int>, Known> known_ = {};
};

CollectiveCall call_on(CollectiveOp op, const Segment& segment) {
  return {.op = op,
          .world_size = static_cast<int>(segment.ranks.size()),
          .bytes = segment.elements * 4,
          .parts = segment.kinds};
}

// What scratch follows from. Rings need as many places however long they are; their steps, which
// grow with the square of the ranks, are not written down for that.
CollectiveAlgorithm without_its_steps(const std::string& name, CollectiveCall call) {
  const int ranks = call.world_size;
  const bool ring = name == "ring";
  if (name == "hierarchical") {
    return {.chunks = ranks, .scratch_places = hierarchical_ring_places(call.parts)};
  }
  if (ring) call.world_size = std::min(ranks, 3);
  CollectiveAlgorithm made = make_algorithm(name, call);
  made.steps.clear();
  if (ring) made.chunks = ranks;
  return made;
}

CollectiveAlgorithm chosen(CollectiveOp op, const Segment& segment) {
  return chosen_algorithm(training_choices(), call_on(op, segment));
}

}  // namespace

std::int64_t padded_elements(std::int64_t elements) { return aligned(elements * 4) / 4; }

std::vector<Segment> segments_of(const Plan& plan, const ModelConfig& model) {
  const auto holders = HolderLists(plan, model).find();
  SegmentBuilder builder(plan);
  const Slice all = {0, model.layers, true, true};
  for (const TensorShard& whole : shards_of(model, all, {.layout = layout_of(plan)})) {
    const auto found = holders.find(whole.tensor.name);
    if (found != holders.end()) builder.add(whole, found->second);
  }
  return builder.take();
}

std::vector<TensorShard> owned_parts(const Segment& segment, int holder) {
  std::int64_t begin = 0;
  for (int before = 0; before < holder; ++before) {
    begin += segment.owned[before];
  }
  const std::int64_t end = begin + segment.owned[holder];
  std::vector<TensorShard> owned;
  std::int64_t at = 0;
  for (std::size_t index = 0; index < segment.parts.size(); ++index) {
    const TensorShard& part = segment.parts[index];
    const std::int64_t first = std::max(begin, at);
    const std::int64_t last = std::min(end, at + part.count);
    if (first < last) {
      owned.push_back(part);
      owned.back().first += first - at;
      owned.back().count = last - first;
    }
    // Only the last part of a segment may lie unpadded.
    at += padded_elements(part.count);
  }
  return owned;
}

std::int64_t scattered_elements(const Segment& segment, int holder) {
  return part_of(segment.parts.front().count, std::ssize(segment.ranks), holder).size();
}

CollectiveAlgorithm gradient_algorithm(const Segment& segment) {
  return chosen(CollectiveOp::kReduceScatter, segment);
}

CollectiveAlgorithm parameter_algorithm(const Segment& segment) {
  return chosen(CollectiveOp::kAllGather, segment);
}

std::int64_t SegmentScratch::bytes_of(const Segment& segment) {
  const auto ranks = static_cast<int>(segment.ranks.size());
  std::vector<std::int64_t> sizes = {ranks, segment.scattered ? 1 : 0};  // what is owned differs
  for (const std::vector<int>& kind : segment.kinds) {
    sizes.push_back(std::ssize(kind));
  }
  sizes.push_back(segment.elements);
  const auto [found, is_new] = known_.try_emplace(sizes, std::int64_t{0});
  if (!is_new) return found->second;
  sizes.pop_back();
  for (const CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
    const CollectiveCall call = call_on(op, segment);
    const std::string name = choose(training_choices(), call);
    const auto [kept, is_unknown] =
        algorithms_.try_emplace({text(name_of(op), ' ', name), sizes}, CollectiveAlgorithm{});
    if (is_unknown) kept->second = without_its_steps(name, call);
    found->second = std::max(found->second, scratch_elements(kept->second, segment.owned) * 4);
  }
  return found->second;
}

}  // namespace hethub
