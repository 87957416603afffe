#include "hethub/collective/choice.h"

#include <algorithm>
#include <array>

#include "hethub/base/error.h"
#include "hethub/collective/generators.h"

namespace hethub {
namespace {

constexpr std::array<std::string_view, kCollectiveOps> kNames = {
    "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast",
    "all_to_all", "gather", "scatter",        "barrier"};

using Make = CollectiveAlgorithm (*)(const CollectiveCall& call);

template <CollectiveAlgorithm (*kGenerator)(int)>
CollectiveAlgorithm plain(const CollectiveCall& call) {
  return kGenerator(call.world_size);
}

template <CollectiveAlgorithm (*kGenerator)(int, int)>
CollectiveAlgorithm rooted(const CollectiveCall& call) {
  return kGenerator(call.world_size, call.root);
}

// The parts, or each rank in one.
std::vector<std::vector<int>> parts_of(const CollectiveCall& call) {
  if (!call.parts.empty()) return call.parts;
  std::vector<int> all;
  for (int rank = 0; rank < call.world_size; ++rank) {
    all.push_back(rank);
  }
  return {all};
}

CollectiveAlgorithm in_parts(const CollectiveCall& call) {
  return hierarchical_all_reduce(parts_of(call));
}

CollectiveAlgorithm in_parts_from_root(const CollectiveCall& call) {
  return hierarchical_broadcast(parts_of(call), call.root);
}

CollectiveAlgorithm scatter_in_parts(const CollectiveCall& call) {
  return hierarchical_reduce_scatter(parts_of(call));
}

CollectiveAlgorithm gather_in_parts(const CollectiveCall& call) {
  return hierarchical_all_gather(parts_of(call));
}

struct Candidate {
  CollectiveOp op;
  std::string_view name;
  Make make;
  bool rounds_once;  // also for many ranks; true where nothing is added
};

// The last of each op serves every call.
constexpr std::array kCandidates = {
    Candidate{CollectiveOp::kAllReduce, "direct", plain<direct_all_reduce>, true},
    Candidate{CollectiveOp::kAllReduce, "tree", plain<tree_all_reduce>, false},
    Candidate{CollectiveOp::kAllReduce, "halving_doubling", plain<halving_doubling_all_reduce>,
              false},
    Candidate{CollectiveOp::kAllReduce, "ring", plain<ring_all_reduce>, false},
    Candidate{CollectiveOp::kAllReduce, "hierarchical", in_parts, false},
    Candidate{CollectiveOp::kAllReduce, "pairwise", plain<pairwise_all_reduce>, true},
    Candidate{CollectiveOp::kReduce, "tree", rooted<tree_reduce>, false},
    Candidate{CollectiveOp::kReduce, "direct", rooted<direct_reduce>, true},
    Candidate{CollectiveOp::kReduce, "pairwise", rooted<pairwise_reduce>, true},
    Candidate{CollectiveOp::kReduceScatter, "hierarchical", scatter_in_parts, false},
    Candidate{CollectiveOp::kReduceScatter, "ring", plain<ring_reduce_scatter>, false},
    Candidate{CollectiveOp::kReduceScatter, "halving", plain<halving_reduce_scatter>, false},
    Candidate{CollectiveOp::kReduceScatter, "pairwise", plain<pairwise_reduce_scatter>, true},
    Candidate{CollectiveOp::kAllGather, "hierarchical", gather_in_parts, true},
    Candidate{CollectiveOp::kAllGather, "ring", plain<ring_all_gather>, true},
    Candidate{CollectiveOp::kAllGather, "doubling", plain<doubling_all_gather>, true},
    Candidate{CollectiveOp::kAllGather, "pairwise", plain<pairwise_all_gather>, true},
    Candidate{CollectiveOp::kBroadcast, "direct", rooted<direct_broadcast>, true},
    Candidate{CollectiveOp::kBroadcast, "scatter_all_gather", rooted<scatter_all_gather_broadcast>,
              true},
    Candidate{CollectiveOp::kBroadcast, "hierarchical", in_parts_from_root, true},
    Candidate{CollectiveOp::kBroadcast, "tree", rooted<tree_broadcast>, true},
    Candidate{CollectiveOp::kAllToAll, "pairwise", plain<pairwise_all_to_all>, true},
    Candidate{CollectiveOp::kGather, "tree", rooted<tree_gather>, true},
    Candidate{CollectiveOp::kGather, "direct", rooted<direct_gather>, true},
    Candidate{CollectiveOp::kScatter, "tree", rooted<tree_scatter>, true},
    Candidate{CollectiveOp::kScatter, "direct", rooted<direct_scatter>, true},
    Candidate{CollectiveOp::kBarrier, "dissemination", plain<dissemination_barrier>, true},
};

const Candidate* find_candidate(CollectiveOp op, std::string_view name) {
  const auto* found = std::find_if(kCandidates.begin(), kCandidates.end(), [&](const auto& one) {
    return one.op == op && one.name == name;
  });
  return found == kCandidates.end() ? nullptr : found;
}

bool fits(const ChoiceRule& rule, const CollectiveCall& call) {
  if (rule.op != call.op || call.world_size < rule.least_ranks) return false;
  if (rule.most_ranks >= 0 && call.world_size > rule.most_ranks) return false;
  if (rule.most_bytes >= 0 && call.bytes > rule.most_bytes) return false;
  if (rule.needs_parts && call.parts.size() < 2) return false;
  // Two ranks add once whatever the algorithm.
  if (!call.narrow_sum || call.world_size <= 2) return true;
  const Candidate* candidate = find_candidate(rule.op, rule.algorithm);
  return candidate != nullptr && candidate->rounds_once;
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    all += (all.empty() ? "" : ", ") + name;
  }
  return all;
}

}  // namespace

std::string_view name_of(CollectiveOp op) { return kNames[static_cast<std::size_t>(op)]; }

CollectiveOp collective_op_of(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    throw Error(ErrorCode::kInvalidConfig, {.what = "collective",
                                            .found = std::string(name),
                                            .expected = joined({kNames.begin(), kNames.end()}),
                                            .fix = "use one of these names"});
  }
  return static_cast<CollectiveOp>(found - kNames.begin());
}

bool adds(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

CollectiveCall call_of(CollectiveOp op, int world_size, std::int64_t count, DType dtype) {
  return {.op = op,
          .world_size = world_size,
          .bytes = op == CollectiveOp::kAllToAll ? 0 : count * size_of(dtype),
          .narrow_sum = adds(op) && size_of(dtype) <= 2};
}

// A start, for ranks that share a host's memory; a measured table knows better.
const ChoiceTable& default_choices() {
  constexpr std::int64_t kKib = 1024;
  static const ChoiceTable kTable = {{
      {.op = CollectiveOp::kAllReduce,
       .algorithm = "direct",
       .most_bytes = 4 * kKib,
       .most_ranks = 8},
      {.op = CollectiveOp::kAllReduce, .algorithm = "halving_doubling", .most_bytes = 64 * kKib},
      {.op = CollectiveOp::kAllReduce, .algorithm = "hierarchical", .needs_parts = true},
      {.op = CollectiveOp::kAllReduce, .algorithm = "pairwise", .most_ranks = 8},
      {.op = CollectiveOp::kAllReduce, .algorithm = "ring"},
      {.op = CollectiveOp::kReduce,
       .algorithm = "direct",
       .most_bytes = 16 * kKib,
       .most_ranks = 8},
      {.op = CollectiveOp::kReduce, .algorithm = "tree", .most_bytes = 64 * kKib},
      {.op = CollectiveOp::kReduce, .algorithm = "pairwise"},
      {.op = CollectiveOp::kReduceScatter, .algorithm = "halving", .most_bytes = 64 * kKib},
      {.op = CollectiveOp::kReduceScatter, .algorithm = "pairwise", .most_ranks = 8},
      {.op = CollectiveOp::kReduceScatter, .algorithm = "ring"},
      {.op = CollectiveOp::kAllGather, .algorithm = "doubling", .most_bytes = 64 * kKib},
      {.op = CollectiveOp::kAllGather, .algorithm = "pairwise", .most_ranks = 8},
      {.op = CollectiveOp::kAllGather, .algorithm = "ring"},
      {.op = CollectiveOp::kBroadcast, .algorithm = "hierarchical", .needs_parts = true},
      {.op = CollectiveOp::kBroadcast, .algorithm = "tree", .most_bytes = 256 * kKib},
      {.op = CollectiveOp::kBroadcast, .algorithm = "tree", .most_ranks = 2},
      {.op = CollectiveOp::kBroadcast, .algorithm = "scatter_all_gather"},
      {.op = CollectiveOp::kAllToAll, .algorithm = "pairwise"},
      {.op = CollectiveOp::kGather, .algorithm = "tree", .most_bytes = 64 * kKib, .least_ranks = 9},
      {.op = CollectiveOp::kGather, .algorithm = "direct"},
      {.op = CollectiveOp::kScatter,
       .algorithm = "tree",
       .most_bytes = 64 * kKib,
       .least_ranks = 9},
      {.op = CollectiveOp::kScatter, .algorithm = "direct"},
      {.op = CollectiveOp::kBarrier, .algorithm = "dissemination"},
  }};
  return kTable;
}

const ChoiceTable& training_choices() {
  static const ChoiceTable kTable = {{
      {.op = CollectiveOp::kReduceScatter, .algorithm = "hierarchical", .needs_parts = true},
      {.op = CollectiveOp::kReduceScatter, .algorithm = "ring"},
      {.op = CollectiveOp::kAllGather, .algorithm = "hierarchical", .needs_parts = true},
      {.op = CollectiveOp::kAllGather, .algorithm = "ring"},
      {.op = CollectiveOp::kAllReduce, .algorithm = "ring"},
  }};
  return kTable;
}

std::vector<std::string> algorithms_for(CollectiveOp op) {
  std::vector<std::string> names;
  for (const Candidate& candidate : kCandidates) {
    if (candidate.op == op) names.emplace_back(candidate.name);
  }
  return names;
}

std::string choose(const ChoiceTable& table, const CollectiveCall& call) {
  const auto found = std::find_if(table.rules.begin(), table.rules.end(),
                                  [&](const ChoiceRule& rule) { return fits(rule, call); });
  if (found != table.rules.end()) return found->algorithm;
  return algorithms_for(call.op).back();
}

CollectiveAlgorithm make_algorithm(std::string_view algorithm, const CollectiveCall& call) {
  const Candidate* candidate = find_candidate(call.op, algorithm);
  if (candidate == nullptr) {
    throw Error(ErrorCode::kInvalidConfig, {.what = text("algorithm for ", name_of(call.op)),
                                            .found = std::string(algorithm),
                                            .expected = joined(algorithms_for(call.op)),
                                            .fix = "use one of these names"});
  }
  return candidate->make(call);
}

CollectiveAlgorithm chosen_algorithm(const ChoiceTable& table, const CollectiveCall& call) {
  return make_algorithm(choose(table, call), call);
}

CollectiveAlgorithm host_all_gather(int world_size) { return root_all_gather(world_size); }

// FNV-1a over the text that the table would be written as.
std::uint64_t hash_of(const ChoiceTable& table, const std::vector<std::vector<int>>& parts) {
  std::string all = choices_text(table);
  for (const std::vector<int>& part : parts) {
    all += '|';
    for (const int rank : part) {
      all += text(rank, ',');
    }
  }
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : all) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace hethub
