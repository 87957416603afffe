#include "hethub/collective/algorithm.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/base/split.h"

namespace hethub {
namespace {

Slot data(int chunk) { return {.memory = Memory::kData, .chunk = chunk}; }
Slot scratch(int chunk, int place) {
  return {.memory = Memory::kScratch, .chunk = chunk, .place = place};
}

Step send(int peer, Slot from) { return {.kind = StepKind::kSend, .peer = peer, .from = from}; }
Step recv(int peer, Slot to) { return {.kind = StepKind::kRecv, .peer = peer, .to = to}; }
Step reduce(Slot from, Slot to) { return {.kind = StepKind::kReduce, .from = from, .to = to}; }

// Two, so that a chunk can arrive while the one before it is added.
constexpr int kRingPlaces = 2;

int wrap(int index, int world_size) { return (index % world_size + world_size) % world_size; }

// Data travels forwards; in each round a rank passes on the chunk it completed in the one before.
void add_reduce_scatter(std::vector<Step>& steps, int rank, int world_size) {
  for (int round = 0; round < world_size - 1; ++round) {
    const int incoming = wrap(rank - 2 - round, world_size);
    const Slot arrival = scratch(incoming, round % kRingPlaces);
    steps.push_back(send(wrap(rank + 1, world_size), data(wrap(rank - 1 - round, world_size))));
    steps.push_back(recv(wrap(rank - 1, world_size), arrival));
    steps.push_back(reduce(arrival, data(incoming)));
  }
}

void add_all_gather(std::vector<Step>& steps, int rank, int world_size) {
  for (int round = 0; round < world_size - 1; ++round) {
    steps.push_back(send(wrap(rank + 1, world_size), data(wrap(rank - round, world_size))));
    steps.push_back(recv(wrap(rank - 1, world_size), data(wrap(rank - 1 - round, world_size))));
  }
}

CollectiveAlgorithm without_steps(std::string name, int world_size) {
  require(world_size >= 1, {.what = text(name, ": number of ranks"),
                            .found = text(world_size),
                            .expected = "1 or more",
                            .fix = "pass the number of ranks in the group"});
  CollectiveAlgorithm algorithm{.name = std::move(name)};
  algorithm.steps.resize(static_cast<std::size_t>(world_size));
  return algorithm;
}

void check_table(const CollectiveAlgorithm& algorithm, std::span<const std::int64_t> table) {
  require(std::ssize(table) == algorithm.chunks,
          {.what = text(algorithm.name, ": chunk table"),
           .found = text(table.size(), " chunks"),
           .expected = text(algorithm.chunks),
           .fix = "give one element count for each chunk of the algorithm"});
}

}  // namespace

ChunkTable even_chunks(std::int64_t total, int chunks) {
  ChunkTable table;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    table.push_back(part_of(total, chunks, chunk).size());
  }
  return table;
}

std::int64_t scratch_elements(const CollectiveAlgorithm& algorithm,
                              std::span<const std::int64_t> table) {
  check_table(algorithm, table);
  return algorithm.scratch_places * *std::max_element(table.begin(), table.end());
}

std::int64_t elements_sent(const CollectiveAlgorithm& algorithm,
                           std::span<const std::int64_t> table, int rank) {
  check_table(algorithm, table);
  std::int64_t elements = 0;
  for (const Step& step : algorithm.steps.at(static_cast<std::size_t>(rank))) {
    if (step.kind == StepKind::kSend) {
      elements += table[static_cast<std::size_t>(step.from.chunk)];
    }
  }
  return elements;
}

CollectiveAlgorithm ring_reduce_scatter(int world_size) {
  CollectiveAlgorithm ring = without_steps("ring_reduce_scatter", world_size);
  ring.chunks = world_size;
  ring.scratch_places = world_size > 1 ? kRingPlaces : 0;
  for (int rank = 0; rank < world_size; ++rank) {
    add_reduce_scatter(ring.steps[static_cast<std::size_t>(rank)], rank, world_size);
  }
  return ring;
}

CollectiveAlgorithm ring_all_gather(int world_size) {
  CollectiveAlgorithm ring = without_steps("ring_all_gather", world_size);
  ring.chunks = world_size;
  for (int rank = 0; rank < world_size; ++rank) {
    add_all_gather(ring.steps[static_cast<std::size_t>(rank)], rank, world_size);
  }
  return ring;
}

CollectiveAlgorithm ring_all_reduce(int world_size) {
  CollectiveAlgorithm ring = ring_reduce_scatter(world_size);
  ring.name = "ring_all_reduce";
  for (int rank = 0; rank < world_size; ++rank) {
    add_all_gather(ring.steps[static_cast<std::size_t>(rank)], rank, world_size);
  }
  return ring;
}

CollectiveAlgorithm tree_broadcast(int world_size, int root) {
  CollectiveAlgorithm tree = without_steps("tree_broadcast", world_size);
  require(root >= 0 && root < world_size, {.what = "tree_broadcast: root",
                                           .found = text(root),
                                           .expected = text("0 to ", world_size - 1),
                                           .fix = "pass the position of the root in the group"});
  // Counted from the root: ranks below `have` hold the data, and hand it to those `have` further.
  for (int have = 1; have < world_size; have *= 2) {
    for (int giver = 0; giver < have && giver + have < world_size; ++giver) {
      const int from = wrap(giver + root, world_size);
      const int to = wrap(giver + have + root, world_size);
      tree.steps[static_cast<std::size_t>(from)].push_back(send(to, data(0)));
      tree.steps[static_cast<std::size_t>(to)].push_back(recv(from, data(0)));
    }
  }
  return tree;
}

CollectiveAlgorithm root_all_gather(int world_size) {
  CollectiveAlgorithm gather = without_steps("root_all_gather", world_size);
  gather.chunks = 2;
  gather.scratch_places = world_size;
  std::vector<Step>& root = gather.steps[0];
  for (int rank = 1; rank < world_size; ++rank) {
    gather.steps[static_cast<std::size_t>(rank)] = {send(0, data(0)), recv(0, data(1))};
    root.push_back(recv(rank, scratch(0, rank)));
  }
  for (int rank = 1; rank < world_size; ++rank) {
    root.push_back(send(rank, data(1)));
  }
  return gather;
}

CollectiveAlgorithm dissemination_barrier(int world_size) {
  CollectiveAlgorithm barrier = without_steps("dissemination_barrier", world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    for (int distance = 1; distance < world_size; distance *= 2) {
      auto& steps = barrier.steps[static_cast<std::size_t>(rank)];
      steps.push_back(send(wrap(rank + distance, world_size), data(0)));
      steps.push_back(recv(wrap(rank - distance, world_size), data(0)));
    }
  }
  return barrier;
}

}  // namespace hethub
