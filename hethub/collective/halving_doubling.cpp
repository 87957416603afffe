#include "hethub/collective/generators.h"
#include "hethub/collective/steps.h"

namespace hethub {
namespace {

// The rank of 2^k that take part in the rounds: the first `pairs` of them stand for two ranks each,
// of which the second hands all to the first before and gets its result afterwards.
struct Actors {
  explicit Actors(int world_size) {
    while (count * 2 <= world_size)
      count *= 2;
    pairs = world_size - count;
  }

  int rank_of(int actor) const { return actor < pairs ? 2 * actor : actor + pairs; }
  int passive_of(int actor) const { return actor < pairs ? 2 * actor + 1 : -1; }

  // The chunks of the actors from `first` on, which are those of their ranks in order.
  Slot run(Memory memory, int first, int actors) const {
    const auto begin = [&](int actor) { return actor < pairs ? 2 * actor : actor + pairs; };
    return {
        .memory = memory, .chunk = begin(first), .chunks = begin(first + actors) - begin(first)};
  }

  int count = 1;
  int pairs = 0;
};

void add_halving(CollectiveAlgorithm& to, const Actors& actors) {
  const int all = to.world_size();
  for (int actor = 0; actor < actors.count; ++actor) {
    const int rank = actors.rank_of(actor);
    std::vector<Step>& steps = to.steps[static_cast<std::size_t>(rank)];
    if (const int passive = actors.passive_of(actor); passive >= 0) {
      to.steps[static_cast<std::size_t>(passive)].push_back(send_step(rank, data_slot(0, all)));
      steps.push_back(recv_step(passive, mirror_slot(0, all)));
      steps.push_back(reduce_step(mirror_slot(0, all), data_slot(0, all), false));
    }
    for (int half = actors.count / 2; half >= 1; half /= 2) {
      const int partner = actor ^ half;
      const int kept = actor / half * half;
      const int given = partner / half * half;
      const Slot arrival = actors.run(Memory::kMirror, kept, half);
      steps.push_back(recv_step(actors.rank_of(partner), arrival));
      steps.push_back(send_step(actors.rank_of(partner), actors.run(Memory::kData, given, half)));
      steps.push_back(reduce_step(arrival, actors.run(Memory::kData, kept, half), half == 1));
    }
  }
}

void add_doubling(CollectiveAlgorithm& to, const Actors& actors) {
  for (int actor = 0; actor < actors.count; ++actor) {
    std::vector<Step>& steps = to.steps[static_cast<std::size_t>(actors.rank_of(actor))];
    for (int have = 1; have < actors.count; have *= 2) {
      const int partner = actor ^ have;
      const int peer = actors.rank_of(partner);
      steps.push_back(recv_step(peer, actors.run(Memory::kData, partner / have * have, have)));
      steps.push_back(send_step(peer, actors.run(Memory::kData, actor / have * have, have)));
    }
  }
}

// The whole, to those who took no part.
void add_farewell(CollectiveAlgorithm& to, const Actors& actors) {
  const int all = to.world_size();
  for (int actor = 0; actor < actors.pairs; ++actor) {
    const int rank = actors.rank_of(actor);
    const int passive = actors.passive_of(actor);
    to.steps[static_cast<std::size_t>(rank)].push_back(send_step(passive, data_slot(0, all)));
    to.steps[static_cast<std::size_t>(passive)].push_back(recv_step(rank, data_slot(0, all)));
  }
}

}  // namespace

CollectiveAlgorithm halving_reduce_scatter(int world_size) {
  CollectiveAlgorithm halving = without_steps("halving_reduce_scatter", world_size);
  const Actors actors(world_size);
  halving.mirrored = world_size > 1;
  halving.rounds_once = world_size <= 2;
  add_halving(halving, actors);
  for (int actor = 0; actor < actors.pairs; ++actor) {
    const int rank = actors.rank_of(actor);
    const int passive = actors.passive_of(actor);
    halving.steps[static_cast<std::size_t>(rank)].push_back(send_step(passive, data_slot(passive)));
    halving.steps[static_cast<std::size_t>(passive)].push_back(recv_step(rank, data_slot(passive)));
  }
  return halving;
}

CollectiveAlgorithm doubling_all_gather(int world_size) {
  CollectiveAlgorithm doubling = without_steps("doubling_all_gather", world_size);
  const Actors actors(world_size);
  for (int actor = 0; actor < actors.pairs; ++actor) {
    const int rank = actors.rank_of(actor);
    const int passive = actors.passive_of(actor);
    doubling.steps[static_cast<std::size_t>(passive)].push_back(
        send_step(rank, data_slot(passive)));
    doubling.steps[static_cast<std::size_t>(rank)].push_back(
        recv_step(passive, data_slot(passive)));
  }
  add_doubling(doubling, actors);
  add_farewell(doubling, actors);
  return doubling;
}

CollectiveAlgorithm halving_doubling_all_reduce(int world_size) {
  CollectiveAlgorithm both = without_steps("halving_doubling_all_reduce", world_size);
  const Actors actors(world_size);
  both.mirrored = world_size > 1;
  both.rounds_once = world_size <= 2;
  add_halving(both, actors);
  add_doubling(both, actors);
  add_farewell(both, actors);
  return both;
}

}  // namespace hethub
