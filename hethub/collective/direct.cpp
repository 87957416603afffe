#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

namespace hethub {
namespace {

// The data of a rank other than the root hold its own chunk only.
CollectiveAlgorithm at_root(std::string name, int world_size, int root) {
  CollectiveAlgorithm direct = without_steps(std::move(name), world_size);
  check_root(direct, root);
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<int> held;
    for (int chunk = 0; chunk < world_size; ++chunk) {
      if (rank == root || chunk == rank) held.push_back(chunk);
    }
    direct.data_chunks.push_back(held);
  }
  return direct;
}

}  // namespace

CollectiveAlgorithm direct_all_reduce(int world_size) {
  CollectiveAlgorithm direct = without_steps("direct_all_reduce", world_size);
  direct.rounds_once = true;
  if (world_size == 1) return direct;
  direct.scratch_places = world_size * world_size;  // the whole of each rank
  const auto given_by = [&](int rank) { return scratch_slot(0, rank * world_size, world_size); };
  const Slot all = data_slot(0, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<Step>& steps = direct.steps[static_cast<std::size_t>(rank)];
    for (int round = 1; round < world_size; ++round) {
      const int before = wrap(rank - round, world_size);
      steps.push_back(recv_step(before, given_by(before)));
      steps.push_back(send_step(wrap(rank + round, world_size), all));
    }
    if (rank > 0) {
      steps.push_back(copy_step(all, given_by(rank)));
      steps.push_back(copy_step(given_by(0), all));
    }
    steps.push_back(reduce_step(given_by(1), all, true, world_size - 1));
  }
  return direct;
}

CollectiveAlgorithm direct_reduce(int world_size, int root) {
  CollectiveAlgorithm direct = without_steps("direct_reduce", world_size);
  check_root(direct, root);
  direct.rounds_once = true;
  if (world_size == 1) return direct;
  direct.scratch_places = (world_size - 1) * world_size;
  const Slot all = data_slot(0, world_size);
  std::vector<Step>& steps = direct.steps[static_cast<std::size_t>(root)];
  int place = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank == root) continue;
    direct.steps[static_cast<std::size_t>(rank)].push_back(send_step(root, all));
    steps.push_back(recv_step(rank, scratch_slot(0, place, world_size)));
    place += world_size;
  }
  steps.push_back(reduce_step(scratch_slot(0, 0, world_size), all, true, world_size - 1));
  return direct;
}

CollectiveAlgorithm direct_broadcast(int world_size, int root) {
  CollectiveAlgorithm direct = without_steps("direct_broadcast", world_size);
  check_root(direct, root);
  const Slot all = data_slot(0, world_size);
  for (int round = 1; round < world_size; ++round) {
    const int rank = wrap(root + round, world_size);
    direct.steps[static_cast<std::size_t>(root)].push_back(send_step(rank, all));
    direct.steps[static_cast<std::size_t>(rank)].push_back(recv_step(root, all));
  }
  return direct;
}

CollectiveAlgorithm direct_gather(int world_size, int root) {
  CollectiveAlgorithm direct = at_root("direct_gather", world_size, root);
  for (int round = 1; round < world_size; ++round) {
    const int rank = wrap(root + round, world_size);
    direct.steps[static_cast<std::size_t>(rank)].push_back(send_step(root, data_slot(rank)));
    direct.steps[static_cast<std::size_t>(root)].push_back(recv_step(rank, data_slot(rank)));
  }
  return direct;
}

CollectiveAlgorithm direct_scatter(int world_size, int root) {
  CollectiveAlgorithm direct = at_root("direct_scatter", world_size, root);
  for (int round = 1; round < world_size; ++round) {
    const int rank = wrap(root + round, world_size);
    direct.steps[static_cast<std::size_t>(root)].push_back(send_step(rank, data_slot(rank)));
    direct.steps[static_cast<std::size_t>(rank)].push_back(recv_step(root, data_slot(rank)));
  }
  return direct;
}

CollectiveAlgorithm root_all_gather(int world_size) {
  CollectiveAlgorithm gather = without_steps("root_all_gather", world_size);
  gather.chunks = world_size;
  const Slot all = data_slot(0, world_size);
  std::vector<Step>& root = gather.steps[0];
  for (int rank = 1; rank < world_size; ++rank) {
    gather.steps[static_cast<std::size_t>(rank)] = {send_step(0, data_slot(rank)),
                                                    recv_step(0, all)};
    root.push_back(recv_step(rank, data_slot(rank)));
  }
  for (int rank = 1; rank < world_size; ++rank) {
    root.push_back(send_step(rank, all));
  }
  return gather;
}

CollectiveAlgorithm dissemination_barrier(int world_size) {
  CollectiveAlgorithm barrier = without_steps("dissemination_barrier", world_size);
  barrier.chunks = 1;
  for (int rank = 0; rank < world_size; ++rank) {
    auto& steps = barrier.steps[static_cast<std::size_t>(rank)];
    // What is told in a round is what arrived in the one before, so a round awaits that.
    Slot heard = data_slot(0);
    int round = 0;
    for (int distance = 1; distance < world_size; distance *= 2) {
      steps.push_back(send_step(wrap(rank + distance, world_size), heard));
      heard = scratch_slot(0, round++);
      steps.push_back(recv_step(wrap(rank - distance, world_size), heard));
    }
    barrier.scratch_places = round;
  }
  return barrier;
}

}  // namespace hethub
