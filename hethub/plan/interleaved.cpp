#include "hethub/plan/interleaved.h"

#include <algorithm>

#include "hethub/base/error.h"

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
    for (const ActionKind kind : step_actions()) {
      actions_.push_back({.kind = kind, .position = worker_});
    }
    return std::move(actions_);
  }

 private:
  int micro_batch_of(int turn) const {
    return turn / (stages_ * chunks_) * stages_ + turn % stages_;
  }
  int chunk_of(int turn) const { return turn % (stages_ * chunks_) / stages_; }

  void forward(int turn) {
    const int position = chunk_of(turn) * stages_ + worker_;
    add(ActionKind::kRecvActivation, position, turn, position > 0);
    add(ActionKind::kForward, position, turn, true);
    add(ActionKind::kSendActivation, position, turn, !is_last(position));
  }

  void backward(int turn) {
    const int position = (chunks_ - 1 - chunk_of(turn)) * stages_ + worker_;
    add(ActionKind::kRecvGradient, position, turn, !is_last(position));
    add(ActionKind::kBackward, position, turn, true);
    add(ActionKind::kSendGradient, position, turn, position > 0);
  }

  bool is_last(int position) const { return position == stages_ * chunks_ - 1; }

  void add(ActionKind kind, int position, int turn, bool wanted) {
    if (!wanted) return;
    actions_.push_back({.kind = kind, .position = position, .micro_batch = micro_batch_of(turn)});
  }

  int worker_;
  int stages_;
  int chunks_;
  int total_;
  std::vector<Action> actions_ = {};
};

}  // namespace

Schedule interleaved(int stages, int chunks, int micro_batches) {
  require(stages >= 2 && chunks >= 1 && micro_batches >= 1 && micro_batches % stages == 0, [&] {
    return ErrorParts{.what = "interleaved schedule",
                      .found = text(stages, " stages, ", chunks, " positions each, ", micro_batches,
                                    " micro-batches"),
                      .expected = "2 stages or more, and micro-batches in whole runs of them",
                      .fix = "change the number of micro-batches"};
  });
  Schedule schedule{.name = "interleaved", .micro_batches = micro_batches, .worker_of = {{}}};
  for (int position = 0; position < stages * chunks; ++position) {
    schedule.worker_of[0].push_back(position % stages);
  }
  for (int worker = 0; worker < stages; ++worker) {
    schedule.actions.push_back(Worker(worker, stages, chunks, micro_batches).actions());
  }
  return schedule;
}

}  // namespace hethub
