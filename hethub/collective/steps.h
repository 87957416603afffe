#pragma once

#include <string>
#include <vector>

#include "hethub/collective/algorithm.h"

// Words that the generators share.

namespace hethub {

inline Slot data_slot(int chunk, int chunks = 1) {
  return {.memory = Memory::kData, .chunk = chunk, .chunks = chunks};
}
inline Slot mirror_slot(int chunk, int chunks = 1) {
  return {.memory = Memory::kMirror, .chunk = chunk, .chunks = chunks};
}
inline Slot scratch_slot(int chunk, int place, int chunks = 1) {
  return {.memory = Memory::kScratch, .chunk = chunk, .place = place, .chunks = chunks};
}

inline Step send_step(int peer, Slot from) {
  return {.kind = StepKind::kSend, .peer = peer, .from = from};
}
inline Step recv_step(int peer, Slot to) {
  return {.kind = StepKind::kRecv, .peer = peer, .to = to};
}
inline Step reduce_step(Slot from, Slot to, bool completes, int terms = 1) {
  return {
      .kind = StepKind::kReduce, .from = from, .to = to, .terms = terms, .completes = completes};
}
inline Step copy_step(Slot from, Slot to) {
  return {.kind = StepKind::kCopy, .from = from, .to = to};
}

/// `index` modulo the number of ranks, also below 0.
inline int wrap(int index, int world_size) {
  return (index % world_size + world_size) % world_size;
}

/// An algorithm whose chunk c belongs to rank c, with no steps yet. Throws kInvalidArgument if
/// there is no rank.
CollectiveAlgorithm without_steps(std::string name, int world_size);

/// How many ranks the parts of the algorithm of that name have together. Throws kInvalidArgument if
/// they do not name each position of a group once.
int ranks_in(const std::string& name, const std::vector<std::vector<int>>& parts);

/// Throws kInvalidArgument if `root` is no position in the group.
void check_root(const CollectiveAlgorithm& algorithm, int root);

/// Adds the steps of `second`, which has the same table, behind those of `first`.
CollectiveAlgorithm one_after_the_other(std::string name, CollectiveAlgorithm first,
                                        const CollectiveAlgorithm& second);

/// Copies all chunks from the first of `ranks` to the others, over a binomial tree.
void add_tree_broadcast(CollectiveAlgorithm& to, const std::vector<int>& ranks);

}  // namespace hethub
