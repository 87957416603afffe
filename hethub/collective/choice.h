#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/json.h"
#include "hethub/collective/algorithm.h"

namespace hethub {

/// The collectives that a group can call.
enum class CollectiveOp : std::uint8_t {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
};
inline constexpr int kCollectiveOps = 9;

/// As users spell it: "all_reduce".
std::string_view name_of(CollectiveOp op);

/// The op of this name. Throws kInvalidConfig naming all if there is none.
CollectiveOp collective_op_of(std::string_view name);

/// Whether ranks add up (or take the minimum, the product, ...): all_reduce, reduce,
/// reduce_scatter.
bool adds(CollectiveOp op);

/// What a choice may depend on: alike on all ranks of the group.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::kAllReduce;
  int world_size = 1;
  std::int64_t bytes = 0;  ///< of all chunks together
  int root = 0;            ///< where the op has one
  /// Positions of the ranks of one kind and node; empty: all are alike and near.
  std::vector<std::vector<int>> parts = {};
  bool narrow_sum = false;  ///< 16-bit values are added: no partial sum may be rounded
};

/// The call of `op` on `count` elements, those of all chunks together. The members of an all-to-all
/// know different sizes and must choose alike: its call has no bytes.
CollectiveCall call_of(CollectiveOp op, int world_size, std::int64_t count, DType dtype);

/// One line of the table: for calls of `op` that it fits, use `algorithm`.
struct ChoiceRule {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::string algorithm = {};    ///< "ring", "tree", ...; see algorithms_for
  std::int64_t most_bytes = -1;  ///< -1: any size
  int least_ranks = 1;
  int most_ranks = -1;       ///< -1: any number
  bool needs_parts = false;  ///< only where the ranks are of several kinds or nodes
};

/// Which algorithm serves which call: the first rule that fits. Plain data; a person may edit its
/// file.
struct ChoiceTable {
  std::vector<ChoiceRule> rules = {};
};

/// The table that a communicator uses where none is given.
const ChoiceTable& default_choices();

/// The table for what a training step sums and gathers on devices: plans take their algorithms from
/// it, and with them the runtime and the predictor. Rings for every size, one in each kind where
/// there are several: they send least, over slow links between kinds above all, and whose sum comes
/// first does not hang on the size of a bucket.
const ChoiceTable& training_choices();

/// The algorithms that can serve an op, by the name a table spells.
std::vector<std::string> algorithms_for(CollectiveOp op);

/// The algorithm that a table chooses for a call. Rules that name one which would round partial
/// sums of narrow values are passed over; where no rule fits, the op's last algorithm is taken.
std::string choose(const ChoiceTable& table, const CollectiveCall& call);

/// An algorithm for a call by its name. Throws kInvalidConfig naming those there are.
CollectiveAlgorithm make_algorithm(std::string_view algorithm, const CollectiveCall& call);

/// choose and make_algorithm in one.
CollectiveAlgorithm chosen_algorithm(const ChoiceTable& table, const CollectiveCall& call);

/// How a group gathers a few numbers that lie on the host (losses, norms, hashes): what rank r
/// gives is chunk r. See root_all_gather.
CollectiveAlgorithm host_all_gather(int world_size);

/// A number that is, for practical purposes, equal only for equal tables and equal parts: ranks
/// exchange it before they choose, since ranks that choose differently wait for ever.
std::uint64_t hash_of(const ChoiceTable& table, const std::vector<std::vector<int>>& parts);

/// The table's file form, "hethub-choices/1". Throws kInvalidConfig naming what is wrong where.
ChoiceTable parse_choices(const Json& file, const std::string& name);
ChoiceTable read_choices(const std::filesystem::path& file);

/// The text of the file of a table, one rule a line.
std::string choices_text(const ChoiceTable& table);

}  // namespace hethub
