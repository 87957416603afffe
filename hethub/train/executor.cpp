#include "hethub/train/executor.h"

#include "hethub/base/clock.h"

namespace hethub {
namespace {

void perform(const Schedule& schedule, const Action& now, StageWorker& stage) {
  if (now.is_compute()) return stage.compute(now);
  if (now.is_send()) return stage.send(now, far_end(schedule, now));
  if (now.is_recv()) return stage.recv(now, far_end(schedule, now));
  stage.finish_step(now);
}

}  // namespace

void execute(const Schedule& schedule, int worker, StageWorker& stage,
             const ActionObserver& observer) {
  const auto& actions = schedule.actions.at(worker);
  for (std::size_t slot = 0; slot < actions.size(); ++slot) {
    const double begin = seconds_now();
    perform(schedule, actions[slot], stage);
    if (observer) observer(static_cast<int>(slot), begin, seconds_now());
  }
}

}  // namespace hethub
