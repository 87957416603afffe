#include "hethub/plan/chimera.h"

#include <algorithm>
#include <vector>

#include "hethub/base/error.h"
#include "hethub/base/text.h"
#include "hethub/plan/action_list.h"

namespace hethub {
namespace {

// One computation on a worker, in time slots of one forward or backward each.
struct Turn {
  int slot = 0;
  int direction = 0;
  int position = 0;
  int micro_batch = 0;
  bool forward = true;
};

// Micro-batch `turn` of a direction enters every second slot, so that the other direction's pass
// between its own; units follow each other as soon as the first worker is free.
std::vector<Turn> turns_of(int worker, int stages, int micro_batches) {
  const int half = stages / 2;
  std::vector<Turn> turns;
  for (int unit = 0; unit < micro_batches / stages; ++unit) {
    for (int direction = 0; direction < 2; ++direction) {
      const int position = direction == 0 ? worker : stages - 1 - worker;
      for (int turn = 0; turn < half; ++turn) {
        const int begin = 2 * stages * unit + 2 * turn;
        const int micro_batch = stages * unit + half * direction + turn;
        turns.push_back({begin + position, direction, position, micro_batch, true});
        turns.push_back(
            {begin + 2 * stages - 1 - position, direction, position, micro_batch, false});
      }
    }
  }
  std::sort(turns.begin(), turns.end(),
            [](const Turn& a, const Turn& b) { return a.slot < b.slot; });
  return turns;
}

}  // namespace

Schedule chimera(int stages, int micro_batches) {
  require(fits_chimera(stages, micro_batches), [&] {
    return ErrorParts{
        .what = "chimera schedule",
        .found = text("stages=", stages, " micro_batches=", micro_batches),
        .expected = "an even number of stages, and micro-batches in whole runs of them",
        .fix = "change one of the two"};
  });
  Schedule schedule{.name = "chimera", .micro_batches = micro_batches, .worker_of = {{}, {}}};
  for (int worker = 0; worker < stages; ++worker) {
    schedule.worker_of[0].push_back(worker);
    schedule.worker_of[1].push_back(stages - 1 - worker);
    ActionList list(stages);
    for (const Turn& turn : turns_of(worker, stages, micro_batches)) {
      list.use({.direction = turn.direction});
      if (turn.forward) {
        list.forward(turn.position, turn.micro_batch);
      } else {
        list.backward(turn.position, turn.micro_batch);
      }
    }
    list.use({});
    list.finish_step(worker);
    schedule.actions.push_back(list.take());
  }
  return schedule;
}

}  // namespace hethub
