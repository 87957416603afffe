#include <algorithm>

#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

// Ranks are counted from the root here: "relative" r is the rank r after it.

namespace hethub {
namespace {

std::vector<Step>& steps_of(CollectiveAlgorithm& tree, int relative, int root) {
  return tree.steps[static_cast<std::size_t>(wrap(relative + root, tree.world_size()))];
}

// How many ranks stand below and at a relative rank: up to its lowest bit, or to the end.
int subtree(int relative, int world_size) {
  const int lowest = relative == 0 ? world_size : relative & -relative;
  return std::min(lowest, world_size - relative);
}

// Runs of chunks in the order of ranks: two where the relative run passes rank 0.
std::vector<Slot> runs(Memory memory, int relative, int count, int root, int world_size) {
  const int first = wrap(relative + root, world_size);
  const int before_end = std::min(count, world_size - first);
  std::vector<Slot> list = {{.memory = memory, .chunk = first, .chunks = before_end}};
  if (count > before_end) {
    list.push_back({.memory = memory, .chunk = 0, .chunks = count - before_end});
  }
  return list;
}

// Where a rank keeps chunks of others: the root has them all in its data.
Memory store_of(int relative) { return relative == 0 ? Memory::kData : Memory::kMirror; }

// The data of a rank other than the root hold its own chunk only.
void lay_out(CollectiveAlgorithm& tree, int root) {
  tree.mirrored = tree.world_size() > 2;
  for (int rank = 0; rank < tree.world_size(); ++rank) {
    std::vector<int> held;
    for (int chunk = 0; chunk < tree.world_size(); ++chunk) {
      if (rank == root || chunk == rank) held.push_back(chunk);
    }
    tree.data_chunks.push_back(held);
  }
}

// The distances from a relative rank to its children, the farthest first.
std::vector<int> children(int relative, int world_size) {
  std::vector<int> distances;
  for (int distance = 1; distance < world_size && (relative & distance) == 0; distance *= 2) {
    if (relative + distance < world_size) distances.insert(distances.begin(), distance);
  }
  return distances;
}

// Hands each subtree its chunks. `whole`: every rank's data have room for all chunks.
void add_scatter(CollectiveAlgorithm& tree, int root, bool whole) {
  const int size = tree.world_size();
  for (int relative = 0; relative < size; ++relative) {
    std::vector<Step>& steps = steps_of(tree, relative, root);
    const int rank = wrap(relative + root, size);
    const bool leaf = subtree(relative, size) == 1;
    const Memory store = whole || leaf ? Memory::kData : store_of(relative);
    if (relative > 0) {
      const int parent = wrap((relative & (relative - 1)) + root, size);
      for (const Slot& run : runs(store, relative, subtree(relative, size), root, size)) {
        steps.push_back(recv_step(parent, run));
      }
    }
    for (const int distance : children(relative, size)) {
      const int child = relative + distance;
      for (const Slot& run : runs(store, child, subtree(child, size), root, size)) {
        steps.push_back(send_step(wrap(child + root, size), run));
      }
    }
    if (store == Memory::kMirror) steps.push_back(copy_step(mirror_slot(rank), data_slot(rank)));
  }
}

}  // namespace

void add_tree_broadcast(CollectiveAlgorithm& to, const std::vector<int>& ranks) {
  const Slot all = data_slot(0, to.world_size());
  // Ranks below `have` hold the data, and hand it to those `have` further.
  for (std::size_t have = 1; have < ranks.size(); have *= 2) {
    for (std::size_t giver = 0; giver < have && giver + have < ranks.size(); ++giver) {
      const int from = ranks[giver];
      const int taker = ranks[giver + have];
      to.steps[static_cast<std::size_t>(from)].push_back(send_step(taker, all));
      to.steps[static_cast<std::size_t>(taker)].push_back(recv_step(from, all));
    }
  }
}

CollectiveAlgorithm tree_broadcast(int world_size, int root) {
  CollectiveAlgorithm tree = without_steps("tree_broadcast", world_size);
  check_root(tree, root);
  std::vector<int> ranks;
  for (int relative = 0; relative < world_size; ++relative) {
    ranks.push_back(wrap(relative + root, world_size));
  }
  add_tree_broadcast(tree, ranks);
  return tree;
}

CollectiveAlgorithm tree_reduce(int world_size, int root) {
  CollectiveAlgorithm tree = without_steps("tree_reduce", world_size);
  check_root(tree, root);
  tree.mirrored = world_size > 1;
  tree.rounds_once = world_size <= 2;
  const Slot all = data_slot(0, world_size);
  const Slot arrival = mirror_slot(0, world_size);
  for (int relative = 0; relative < world_size; ++relative) {
    std::vector<Step>& steps = steps_of(tree, relative, root);
    std::vector<int> distances = children(relative, world_size);
    std::reverse(distances.begin(), distances.end());
    for (const int distance : distances) {
      const bool last = relative == 0 && distance == distances.back();
      steps.push_back(recv_step(wrap(relative + distance + root, world_size), arrival));
      steps.push_back(reduce_step(arrival, all, last));
    }
    if (relative == 0) continue;
    steps.push_back(send_step(wrap((relative & (relative - 1)) + root, world_size), all));
  }
  return tree;
}

CollectiveAlgorithm tree_all_reduce(int world_size) {
  return one_after_the_other("tree_all_reduce", tree_reduce(world_size, 0),
                             tree_broadcast(world_size, 0));
}

CollectiveAlgorithm tree_gather(int world_size, int root) {
  CollectiveAlgorithm tree = without_steps("tree_gather", world_size);
  check_root(tree, root);
  lay_out(tree, root);
  for (int relative = 0; relative < world_size; ++relative) {
    std::vector<Step>& steps = steps_of(tree, relative, root);
    const int rank = wrap(relative + root, world_size);
    const int held = subtree(relative, world_size);
    const Memory store = held == 1 ? Memory::kData : store_of(relative);
    if (store == Memory::kMirror) steps.push_back(copy_step(data_slot(rank), mirror_slot(rank)));
    std::vector<int> distances = children(relative, world_size);
    std::reverse(distances.begin(), distances.end());
    for (const int distance : distances) {
      const int child = relative + distance;
      for (const Slot& run : runs(store, child, subtree(child, world_size), root, world_size)) {
        steps.push_back(recv_step(wrap(child + root, world_size), run));
      }
    }
    if (relative == 0) continue;
    const int parent = wrap((relative & (relative - 1)) + root, world_size);
    for (const Slot& run : runs(store, relative, held, root, world_size)) {
      steps.push_back(send_step(parent, run));
    }
  }
  return tree;
}

CollectiveAlgorithm tree_scatter(int world_size, int root) {
  CollectiveAlgorithm tree = without_steps("tree_scatter", world_size);
  check_root(tree, root);
  lay_out(tree, root);
  add_scatter(tree, root, false);
  return tree;
}

CollectiveAlgorithm scatter_all_gather_broadcast(int world_size, int root) {
  CollectiveAlgorithm scatter = without_steps("scatter_all_gather_broadcast", world_size);
  check_root(scatter, root);
  add_scatter(scatter, root, true);
  return one_after_the_other(scatter.name, scatter, ring_all_gather(world_size));
}

}  // namespace hethub
