#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

namespace hethub {
namespace {

// Two, so that a chunk can arrive while the one before it is added.
constexpr int kRingPlaces = 2;

// Data travels forwards; in each round a rank passes on the chunk it completed in the one before.
void add_reduce_scatter(std::vector<Step>& steps, int rank, int world_size) {
  for (int round = 0; round < world_size - 1; ++round) {
    const int incoming = wrap(rank - 2 - round, world_size);
    const Slot arrival = scratch_slot(incoming, round % kRingPlaces);
    steps.push_back(
        send_step(wrap(rank + 1, world_size), data_slot(wrap(rank - 1 - round, world_size))));
    steps.push_back(recv_step(wrap(rank - 1, world_size), arrival));
    steps.push_back(reduce_step(arrival, data_slot(incoming), round == world_size - 2));
  }
}

void add_all_gather(std::vector<Step>& steps, int rank, int world_size) {
  for (int round = 0; round < world_size - 1; ++round) {
    steps.push_back(
        send_step(wrap(rank + 1, world_size), data_slot(wrap(rank - round, world_size))));
    steps.push_back(
        recv_step(wrap(rank - 1, world_size), data_slot(wrap(rank - 1 - round, world_size))));
  }
}

}  // namespace

CollectiveAlgorithm ring_reduce_scatter(int world_size) {
  CollectiveAlgorithm ring = without_steps("ring_reduce_scatter", world_size);
  ring.scratch_places = world_size > 1 ? kRingPlaces : 0;
  ring.rounds_once = world_size <= 2;
  for (int rank = 0; rank < world_size; ++rank) {
    add_reduce_scatter(ring.steps[static_cast<std::size_t>(rank)], rank, world_size);
  }
  return ring;
}

CollectiveAlgorithm ring_all_gather(int world_size) {
  CollectiveAlgorithm ring = without_steps("ring_all_gather", world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    add_all_gather(ring.steps[static_cast<std::size_t>(rank)], rank, world_size);
  }
  return ring;
}

CollectiveAlgorithm ring_all_reduce(int world_size) {
  return one_after_the_other("ring_all_reduce", ring_reduce_scatter(world_size),
                             ring_all_gather(world_size));
}

}  // namespace hethub
