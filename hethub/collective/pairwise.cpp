#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

namespace hethub {
namespace {

// The scratch place of another rank's contribution: the others in the order of ranks.
int place_of(int rank, int peer) { return peer < rank ? peer : peer - 1; }

}  // namespace

CollectiveAlgorithm pairwise_reduce_scatter(int world_size) {
  CollectiveAlgorithm pairwise = without_steps("pairwise_reduce_scatter", world_size);
  pairwise.scratch_places = world_size - 1;
  pairwise.rounds_once = true;
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<Step>& steps = pairwise.steps[static_cast<std::size_t>(rank)];
    for (int round = 1; round < world_size; ++round) {
      const int before = wrap(rank - round, world_size);
      const int after = wrap(rank + round, world_size);
      steps.push_back(recv_step(before, scratch_slot(rank, place_of(rank, before))));
      steps.push_back(send_step(after, data_slot(after)));
    }
    if (world_size == 1) continue;
    steps.push_back(reduce_step(scratch_slot(rank, 0), data_slot(rank), true, world_size - 1));
  }
  return pairwise;
}

CollectiveAlgorithm pairwise_all_gather(int world_size) {
  CollectiveAlgorithm pairwise = without_steps("pairwise_all_gather", world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<Step>& steps = pairwise.steps[static_cast<std::size_t>(rank)];
    for (int round = 1; round < world_size; ++round) {
      const int before = wrap(rank - round, world_size);
      steps.push_back(recv_step(before, data_slot(before)));
      steps.push_back(send_step(wrap(rank + round, world_size), data_slot(rank)));
    }
  }
  return pairwise;
}

CollectiveAlgorithm pairwise_all_reduce(int world_size) {
  return one_after_the_other("pairwise_all_reduce", pairwise_reduce_scatter(world_size),
                             pairwise_all_gather(world_size));
}

CollectiveAlgorithm pairwise_reduce(int world_size, int root) {
  CollectiveAlgorithm reduce = pairwise_reduce_scatter(world_size);
  reduce.name = "pairwise_reduce";
  check_root(reduce, root);
  for (int round = 1; round < world_size; ++round) {
    const int giver = wrap(root + round, world_size);
    reduce.steps[static_cast<std::size_t>(giver)].push_back(send_step(root, data_slot(giver)));
    reduce.steps[static_cast<std::size_t>(root)].push_back(recv_step(giver, data_slot(giver)));
  }
  return reduce;
}

CollectiveAlgorithm pairwise_all_to_all(int world_size) {
  CollectiveAlgorithm pairwise = without_steps("pairwise_all_to_all", world_size);
  pairwise.chunks = world_size * world_size;
  pairwise.input_chunks.resize(pairwise.steps.size());
  pairwise.data_chunks.resize(pairwise.steps.size());
  for (int rank = 0; rank < world_size; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    for (int other = 0; other < world_size; ++other) {
      pairwise.input_chunks[at].push_back(rank * world_size + other);
      pairwise.data_chunks[at].push_back(other * world_size + rank);
    }
    std::vector<Step>& steps = pairwise.steps[at];
    const auto input = [&](int to) {
      return Slot{.memory = Memory::kInput, .chunk = rank * world_size + to};
    };
    for (int round = 1; round < world_size; ++round) {
      const int before = wrap(rank - round, world_size);
      const int after = wrap(rank + round, world_size);
      steps.push_back(recv_step(before, data_slot(before * world_size + rank)));
      steps.push_back(send_step(after, input(after)));
    }
    steps.push_back(copy_step(input(rank), data_slot(rank * world_size + rank)));
  }
  return pairwise;
}

}  // namespace hethub
