#include "hethub/predict/compare_schedules.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <tuple>

#include "hethub/base/error.h"
#include "hethub/plan/pipedream.h"
#include "hethub/plan/predict_only.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/plan/segments.h"
#include "hethub/plan/validate.h"
#include "hethub/predict/predict.h"

namespace hethub {
namespace {

double compute_seconds(const Action& action, const StageNumbers& numbers) {
  double seconds = 0;
  for (const Phase phase : phases_of(action.kind)) {
    seconds += numbers.phase_seconds[static_cast<std::size_t>(phase)];
  }
  return seconds;
}

int most_alive(const Schedule& schedule) {
  int most = 0;
  for (const auto& actions : schedule.actions) {
    int alive = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kForward) most = std::max(most, ++alive);
      const bool ends =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
      if (ends) --alive;
    }
  }
  return most;
}

// Writes schedules of one pipeline and simulates them.
class Comparison {
 public:
  Comparison(const Plan& plan, const ModelConfig& model, const CostModel& costs)
      : plan_(plan), model_(model), costs_(costs) {
    const std::vector<int> all = cluster_ranks_of(plan, costs.ranks());
    for (const Stage& stage : plan.pipelines.at(0).stages) {
      devices_.push_back(all.at(stage.ranks.at(0)));
    }
  }

  ScheduleAnswer answer(const std::string& name, bool flushes,
                        const std::function<Schedule(int micro_batches)>& make) {
    const int micro_batches = plan_.pipelines[0].micro_batches;
    const Schedule one = make(micro_batches);
    const std::vector<StageNumbers>& positions = positions_of(one.splits_backward());
    ScheduleAnswer answer{.name = name,
                          .seconds = schedule_seconds(one, positions, devices_, costs_),
                          .most_alive = most_alive(one),
                          .weight_copies = static_cast<int>(one.worker_of.size())};
    if (!flushes) {  // what another step adds to a run
      answer.seconds = schedule_seconds(make(3 * micro_batches), positions, devices_, costs_) -
                       schedule_seconds(make(2 * micro_batches), positions, devices_, costs_);
    }
    const Schedule more = flushes ? one : make(3 * micro_batches);
    for (int worker = 0; worker < one.workers(); ++worker) {
      answer.weight_versions = std::max(answer.weight_versions, most_weight_versions(more, worker));
    }
    double work = 0;
    for (const StageNumbers& numbers : positions) {
      for (const double seconds : numbers.phase_seconds) {
        work += micro_batches * seconds;
      }
    }
    answer.bubble = 1 - work / (answer.seconds * one.workers());
    return answer;
  }

 private:
  // Programs are split where the schedule splits the backward pass.
  const std::vector<StageNumbers>& positions_of(bool split) {
    const auto [place, is_new] = known_.try_emplace(split);
    if (!is_new) return place->second;
    Plan plan = plan_;
    plan.schedule = split ? "zero-bubble" : "1f1b";
    const std::vector<Segment> segments = segments_of(plan, model_);
    place->second =
        numbers_of(plan, distinct_rank_plans(plan, model_, segments), costs_, nullptr).stages.at(0);
    for (std::size_t position = 0; position < place->second.size(); ++position) {
      const Stage& stage = plan.pipelines[0].stages[position];
      place->second[position].sent_bytes /= static_cast<double>(stage.ranks.size());
    }
    return place->second;
  }

  const Plan& plan_;
  const ModelConfig& model_;
  const CostModel& costs_;
  std::vector<int> devices_ = {};
  std::map<bool, std::vector<StageNumbers>> known_ = {};
};

void require_comparable(const Plan& plan) {
  for (const Stage& stage : plan.pipelines.at(0).stages) {
    const bool alike = stage.kind == plan.pipelines[0].stages[0].kind && stage.layers.size() == 1;
    if (alike) continue;
    throw Error(ErrorCode::kInvalidPlan,
                {.what = "pipeline 0",
                 .found = "stages of several kinds, or with several ranges of layers",
                 .expected = "one kind, and one range of layers a stage",
                 .fix = "compare the schedules of such a plan"});
  }
}

}  // namespace

double schedule_seconds(const Schedule& schedule, const std::vector<StageNumbers>& positions,
                        const std::vector<int>& devices, const CostModel& costs) {
  StepBuilder builder(costs);
  std::map<std::tuple<ActionKind, int, int, int>, int> messages;  // by the sending action
  const auto message_of = [&](const Action& send) {
    const auto [place, is_new] =
        messages.try_emplace({send.kind, send.direction, send.position, send.micro_batch}, 0);
    if (is_new) place->second = builder.add_message();
    return place->second;
  };
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    for (const Action& action : schedule.actions[worker]) {
      if (action.is_compute()) {
        builder.work(devices[worker], compute_seconds(action, positions.at(action.position)));
        continue;
      }
      if (!action.is_send() && !action.is_recv()) continue;
      const WorkerAction far = far_end(schedule, action);
      const double bytes = positions.at(std::min(action.position, far.action.position)).sent_bytes;
      if (action.is_send()) {
        builder.send(devices[worker], devices[far.worker], bytes, message_of(action));
      } else {
        builder.recv(devices[worker], devices[far.worker], bytes, message_of(far.action));
      }
    }
  }
  return simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
}

std::vector<ScheduleAnswer> compare_schedules(const Plan& plan, const ModelConfig& model,
                                              const CostModel& costs) {
  require_valid(plan, model);
  require_comparable(plan);
  Comparison comparison(plan, model, costs);
  const auto stages = static_cast<int>(plan.pipelines[0].stages.size());
  const int micro_batches = plan.pipelines[0].micro_batches;
  std::vector<ScheduleAnswer> answers;
  for (const ScheduleEntry& entry : all_schedules()) {
    if (entry.virtual_stages) continue;
    answers.push_back(comparison.answer(std::string(entry.name), true, [&](int count) {
      return entry.make({.stages = stages, .micro_batches = count});
    }));
  }
  for (const PredictOnlySchedule& entry : predict_only_schedules()) {
    if (entry.fits(stages, micro_batches)) {
      answers.push_back(comparison.answer(std::string(entry.name), entry.flushes,
                                          [&](int count) { return entry.make(stages, count); }));
    } else {
      answers.push_back({.name = std::string(entry.name), .misfit = std::string(entry.needs)});
    }
    answers.back().runs = false;
  }
  return answers;
}

}  // namespace hethub
