#include <algorithm>

#include "hethub/search/exact.h"

namespace hethub {

Plan ExactSearch::plan_of(const std::vector<Choice>& chosen) const {
  std::vector<std::size_t> next(classes_.size(), 0);
  Plan plan{.model = request_.model_path,
            .sequence_length = request_.sequence_length,
            .global_batch = request_.global_batch,
            .dtype = std::string(name_of(request_.dtype)),
            .schedule = request_.allowed_schedules().front(),
            .sequence_parallel = request_.sequence_parallel};
  for (const Choice& choice : chosen) {
    Pipeline pipeline{.micro_batch_size = sizes_[choice.size],
                      .micro_batches = choice.micro_batches};
    int begin = 0;
    const std::vector<int>& split = splits_of(choice.shape)[choice.split];
    for (std::size_t stage = 0; stage < split.size(); ++stage) {
      const int which = shapes_[choice.shape][stage];
      const int rank = classes_[which].ranks[next[which]++];
      const LayerRange layers = {begin, begin + split[stage]};
      Stage made{.kind = classes_[which].kind, .ranks = {rank}, .layers = {layers}};
      if (request_.pins.recompute == Recompute::kFull) {
        made.recompute = {{Recompute::kFull, layers}};
      }
      pipeline.stages.push_back(std::move(made));
      begin = layers.end;
    }
    plan.pipelines.push_back(std::move(pipeline));
  }
  close_rank_gaps(plan);
  return plan;
}

// Uses segments_ and optimizer_, which belong to the plan's layout.
double ExactSearch::simulate_plan(const Plan& plan, StepPart part) {
  StepNumbers numbers = optimizer_;
  pricer_.add_stages(plan, numbers);
  StepBuilder builder(request_.costs);
  const std::vector<int> devices = cluster_ranks_of(plan, request_.costs.ranks());
  write_step(builder, plan, segments_, numbers, devices, Labels::kNone, part);
  ++result_.simulated;
  return simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
}

// What the plan takes at least: no rank begins the optimizer before the slowest pipeline has ended,
// nor what precedes it before its own last micro-batch.
double ExactSearch::bound_of(const std::vector<Choice>& chosen) const {
  double slowest = 0;
  double first_done = kNever;
  for (const Choice& choice : chosen) {
    tables_.for_each_load(shapes_[choice.shape], splits_of(choice.shape)[choice.split], choice.size,
                          [&](const StageLoad& load) {
                            const double busy = choice.micro_batches * load.work;
                            slowest = std::max(slowest, load.fill + busy);
                            first_done = std::min(first_done, busy);
                          });
  }
  return std::max(slowest + after_norm_, first_done + after_pipelines_);
}

void ExactSearch::consider(const std::vector<Choice>& chosen) {
  Plan plan = plan_of(chosen);
  std::vector<std::string> schedules = request_.allowed_schedules();
  const bool pipelined = std::any_of(plan.pipelines.begin(), plan.pipelines.end(),
                                     [](const Pipeline& one) { return one.stages.size() > 1; });
  if (!pipelined) schedules.resize(1);
  double best = kNever;
  for (const std::string& schedule : schedules) {
    plan.schedule = schedule;
    const double seconds = simulate_plan(plan, StepPart::kWhole);
    if (seconds >= threshold() || seconds >= best * (1 - kSlack)) continue;
    best = seconds;
    fit_and_keep(plan, seconds);
  }
}

void ExactSearch::fit_and_keep(Plan plan, double seconds) {
  const auto same = [&](const Kept& kept) { return kept.plan == plan; };
  if (std::any_of(kept_.begin(), kept_.end(), same)) return;
  std::vector<MemoryFault> faults = memory_.faults_of(plan, segments_, request_.costs);
  if (!faults.empty() && !request_.pins.recompute) {
    for (const MemoryFault& fault : faults) {
      recompute_least(plan, fault);
    }
    faults = memory_.faults_of(plan, segments_, request_.costs);
    if (faults.empty()) seconds = simulate_plan(plan, StepPart::kWhole);
  }
  if (!faults.empty()) {
    ++result_.too_big;
    note_shortage(plan, *std::max_element(faults.begin(), faults.end(),
                                          [](const MemoryFault& a, const MemoryFault& b) {
                                            return a.bytes_short < b.bytes_short;
                                          }));
    return;
  }
  if (seconds >= threshold() || std::any_of(kept_.begin(), kept_.end(), same)) return;
  const auto place = std::upper_bound(
      kept_.begin(), kept_.end(), seconds,
      [](double value, const Kept& kept) { return value < kept.seconds * (1 - kSlack); });
  kept_.insert(place, {std::move(plan), seconds});
  if (kept_.size() > request_.keep) kept_.pop_back();
}

// Gives the rank's stage the recompute that costs least of those with which it fits: of its first
// layers, as few as will do, selective or full. What else a plan does takes no longer for it, so
// nothing but the stage's own time decides. Where nothing fits, all layers recompute in full.
void ExactSearch::recompute_least(Plan& plan, const MemoryFault& fault) {
  const RankPosition at = position_of(plan, fault.rank);
  Stage& stage = plan.pipelines[at.pipeline].stages[at.stage];
  const LayerRange layers = stage.layers.front();
  const std::int64_t room = kind_named(request_.costs.cluster(), stage.kind).memory_bytes -
                            request_.costs.fixed_memory_bytes(stage.kind);
  const auto fits = [&](const RecomputeRange& again) {
    stage.recompute = {again};
    return memory_.arenas_of(plan, segments_)[fault.rank] <= room;
  };
  RecomputeRange best = {Recompute::kFull, layers};
  double least = kNever;
  const auto size = plan.pipelines[at.pipeline].micro_batch_size;
  for (const Recompute kind : {Recompute::kFull, Recompute::kSelective}) {
    if (!fits({kind, layers})) continue;
    int few = 0;  // do not fit
    int many = layers.size();
    while (many - few > 1) {
      const int middle = (few + many) / 2;
      (fits({kind, {layers.begin, layers.begin + middle}}) ? many : few) = middle;
    }
    const RecomputeRange again = {kind, {layers.begin, layers.begin + many}};
    const double seconds = pricer_.stage(stage.kind, size, layers, {again})
                               .phase_seconds[static_cast<std::size_t>(Phase::kBackward)];
    if (seconds >= least) continue;
    least = seconds;
    best = again;
  }
  stage.recompute = {best};
}

void ExactSearch::note_shortage(const Plan& plan, const MemoryFault& fault) {
  if (result_.nearest && result_.nearest->bytes_short <= fault.bytes_short) return;
  result_.nearest = {plan, fault.rank, fault.kind, fault.bytes_short};
}

}  // namespace hethub
