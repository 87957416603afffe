#include "hethub/plan/gradient_buckets.h"

#include <algorithm>
#include <tuple>

#include "hethub/base/text.h"

namespace hethub {

ActionLabel bucket_label(int bucket) {
  return {"buckets", text("sum_gradients ", bucket), "sum_gradients"};
}

BucketTimes::BucketTimes(const Schedule& schedule, int worker, const std::vector<int>& positions,
                         const std::vector<Program>& programs)
    : programs_(programs), last_runs_(programs.size(), std::vector<Moment>(kPhases)) {
  const std::vector<Action>& actions = schedule.actions.at(worker);
  for (std::size_t slot = 0; slot < actions.size(); ++slot) {
    const Action& action = actions[slot];
    const auto at = std::find(positions.begin(), positions.end(), action.position);
    const auto program = static_cast<int>(at - positions.begin());
    for (const Phase phase : phases_of(action.kind)) {
      last_runs_.at(program)[static_cast<std::size_t>(phase)] = {
          static_cast<int>(slot),
          {.program = program, .micro_batch = action.micro_batch, .phase = phase}};
    }
  }
}

BucketTimes::Moment BucketTimes::last_use(int program, int gradient) const {
  for (const Phase phase : {Phase::kBackwardWeight, Phase::kBackward}) {
    const std::vector<Instruction>& list = programs_[program].phase(phase);
    for (auto index = static_cast<int>(list.size()) - 1; index >= 0; --index) {
      const std::vector<int>& outputs = list[index].outputs;
      if (std::find(outputs.begin(), outputs.end(), gradient) == outputs.end()) continue;
      Moment moment = last_runs_[program][static_cast<std::size_t>(phase)];
      moment.ready.instruction = index;
      return moment;
    }
  }
  return {};
}

BucketReady BucketTimes::after(const std::vector<std::string>& parameters) {
  const auto order = [](const Moment& moment) {
    return std::tuple(moment.slot, moment.ready.phase, moment.ready.instruction);
  };
  for (std::size_t program = 0; program < programs_.size(); ++program) {
    for (const std::string& name : parameters) {
      const int parameter = programs_[program].find(name);
      if (parameter < 0) continue;
      const Moment moment =
          last_use(static_cast<int>(program), programs_[program].gradient_of(parameter));
      if (order(moment) > order(latest_)) latest_ = moment;
    }
  }
  return latest_.ready;
}

}  // namespace hethub
