#include "hethub/plan/interleaved.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/plan/action_list.h"
#include "hethub/plan/plan.h"

namespace hethub {
namespace {

// One worker's list of actions.
class Worker {
 public:
  Worker(int worker, int stages, int chunks, int micro_batches)
      : worker_(worker), stages_(stages), chunks_(chunks), total_(chunks * micro_batches) {}

  std::vector<Action> actions() {
    // The first backward of the last position comes to this worker after so many forwards.
    const int ahead = (stages_ - worker_ - 1) * 2 + (chunks_ - 1) * stages_;
    const int lead = std::min(total_, ahead);
    for (int slot = 0; slot < total_ + lead; ++slot) {
      if (slot < total_) forward(slot);
      if (slot >= lead) backward(slot - lead);
    }
    list_.finish_step(worker_);
    return list_.take();
  }

 private:
  int micro_batch_of(int turn) const {
    return turn / (stages_ * chunks_) * stages_ + turn % stages_;
  }
  int chunk_of(int turn) const { return turn % (stages_ * chunks_) / stages_; }

  void forward(int turn) {
    list_.forward(chunk_of(turn) * stages_ + worker_, micro_batch_of(turn));
  }

  void backward(int turn) {
    list_.backward((chunks_ - 1 - chunk_of(turn)) * stages_ + worker_, micro_batch_of(turn));
  }

  int worker_;
  int stages_;
  int chunks_;
  int total_;
  ActionList list_{stages_ * chunks_};
};

}  // namespace

Schedule interleaved(int stages, int chunks, int micro_batches) {
  require(chunks >= 1 && can_interleave(stages, micro_batches), [&] {
    return ErrorParts{.what = "interleaved schedule",
                      .found = text(stages, " stages, ", chunks, " positions each, ", micro_batches,
                                    " micro-batches"),
                      .expected = "2 stages or more, and micro-batches in whole runs of them",
                      .fix = "change the number of micro-batches"};
  });
  Schedule schedule{.name = "interleaved", .micro_batches = micro_batches, .worker_of = {{}}};
  for (int position = 0; position < stages * chunks; ++position) {
    schedule.worker_of[0].push_back(stage_of_position(position, stages));
  }
  for (int worker = 0; worker < stages; ++worker) {
    schedule.actions.push_back(Worker(worker, stages, chunks, micro_batches).actions());
  }
  return schedule;
}

}  // namespace hethub
