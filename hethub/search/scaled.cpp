#include "hethub/search/scaled.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "hethub/base/clock.h"
#include "hethub/plan/alike_pipelines.h"
#include "hethub/search/even_replicas.h"
#include "hethub/search/parallel.h"
#include "hethub/search/replica_search.h"

namespace hethub {
namespace {

std::int64_t memory_of(const CostModel& costs, const std::string& kind) {
  return kind_named(costs.cluster(), kind).memory_bytes - costs.fixed_memory_bytes(kind);
}

}  // namespace

ScaledSearch::ScaledSearch(const SearchRequest& request)
    : request_(request),
      own_(own_cache(request)),
      cache_(request.cache != nullptr ? *request.cache : *own_),
      menu_(request, cache_),
      begin_s_(seconds_now()) {
  for (const std::string& kind : menu_.kinds()) {
    usable_bytes_.push_back(static_cast<double>(memory_of(request.costs, kind)));
  }
}

double ScaledSearch::seconds_left() const {
  return begin_s_ + request_.time_limit_s - seconds_now();
}

// Whether its ranks have room for what they need at most.
bool ScaledSearch::surely_fits(const Plan& plan) {
  std::map<std::string_view, std::int64_t> have;
  for (std::size_t pipeline = 0; pipeline < plan.pipelines.size(); ++pipeline) {
    const Pipeline& one = plan.pipelines[pipeline];
    if (pipeline > 0 && alike_but_for_ranks(one, plan.pipelines[pipeline - 1])) continue;
    for (std::size_t stage = 0; stage < one.stages.size(); ++stage) {
      const auto [kind, is_new] = have.try_emplace(one.stages[stage].kind, 0);
      if (is_new) kind->second = memory_of(request_.costs, one.stages[stage].kind);
      const RankPosition at = {static_cast<int>(pipeline), static_cast<int>(stage), 0};
      if (cache_.stage_memory.arena_limit(plan, at) > kind->second) return false;
    }
  }
  return true;
}

// Whether the plan fits. If not, its kinds are taken to have less by what it lacks.
bool ScaledSearch::fits(const Plan& plan, const std::vector<Segment>& segments) {
  const std::vector<MemoryFault> faults = cache_.memory.faults_of(plan, segments, request_.costs);
  std::map<std::string, std::int64_t> most;
  for (const MemoryFault& fault : faults) {
    most[fault.kind] = std::max(most[fault.kind], fault.bytes_short);
    if (!result_.nearest || result_.nearest->bytes_short > fault.bytes_short) {
      result_.nearest = {plan, fault.rank, fault.kind, fault.bytes_short};
    }
  }
  for (std::size_t kind = 0; kind < menu_.kinds().size(); ++kind) {
    const auto found = most.find(menu_.kinds()[kind]);
    if (found != most.end()) usable_bytes_[kind] -= 1.02 * static_cast<double>(found->second);
  }
  result_.too_big += faults.empty() ? 0 : 1;
  return faults.empty();
}

double ScaledSearch::threshold() const {
  return kept_.size() < request_.keep ? std::numeric_limits<double>::infinity()
                                      : kept_.back().plan.predicted_step_seconds;
}

// What no simulation of these pipelines is faster than: a stage does nothing before its first
// forward pass has come through the stages before it, nor after its last backward pass, which goes
// back through them.
double ScaledSearch::least_seconds(const std::vector<ChosenPipeline>& pipelines) {
  double most = 0;
  const TensorLayout layout = menu_.layout_of(pipelines);
  for (std::size_t index = 0; index < pipelines.size(); ++index) {
    const ChosenPipeline& one = pipelines[index];
    if (index > 0 && one.micro_batches == pipelines[index - 1].micro_batches &&
        one.column.size == pipelines[index - 1].column.size &&
        one.column.stages == pipelines[index - 1].column.stages) {
      continue;
    }
    double fill = 0;
    for (const PickedStage& stage : one.column.stages) {
      const double work = menu_.compute_seconds(one.column.size, stage, layout);
      most = std::max(most, fill + static_cast<double>(one.micro_batches) * work);
      fill += work;
    }
  }
  return most;
}

// Whether they fit, or are proven slower than what is kept.
bool ScaledSearch::consider(const std::vector<ChosenPipeline>& pipelines) {
  const std::int64_t too_big = result_.too_big;
  consider_all({pipelines});
  return result_.too_big == too_big;
}

// Two at a time, whatever the number of processors: what is passed over must not depend on it.
void ScaledSearch::consider_all(const std::vector<std::vector<ChosenPipeline>>& sets) {
  const std::size_t most_at_once = request_.quick ? 1 : 2;
  for (std::size_t next = 0; next < sets.size();) {
    const bool late = seconds_left() < request_.time_limit_s / 2;
    if (late && !kept_.empty()) return;
    std::vector<Trial> trials;
    for (; next < sets.size() && trials.size() < most_at_once; ++next) {
      if (least_seconds(sets[next]) >= threshold()) continue;
      Trial trial{.plan = menu_.plan_of(sets[next])};
      const bool is_trial = std::any_of(trials.begin(), trials.end(), [&](const Trial& other) {
        return other.plan.pipelines == trial.plan.pipelines;
      });
      if (!is_trial && !is_kept(trial.plan)) trials.push_back(std::move(trial));
    }
    for_each_in_parallel(static_cast<int>(trials.size()), [&](int index) {
      trials[index].segments = segments_of(trials[index].plan, request_.model);
    });
    std::erase_if(trials, [&](const Trial& trial) {
      return !surely_fits(trial.plan) && !fits(trial.plan, trial.segments);
    });
    simulate_all(trials);
    for (Trial& trial : trials) {
      keep(std::move(trial));
    }
  }
}

void ScaledSearch::simulate_all(std::vector<Trial>& trials) {
  for_each_in_parallel(static_cast<int>(trials.size()), [&](int index) {
    Trial& trial = trials[index];
    const Plan& plan = trial.plan;
    StepNumbers numbers = cache_.pricer.numbers(plan, trial.segments);
    if (request_.quick) {
      const double seconds = cache_.pricer.step_seconds(plan, trial.segments, numbers);
      const auto tokens = static_cast<double>(plan.global_batch * plan.sequence_length);
      trial.prediction = {.step_seconds = seconds, .tokens_per_second = tokens / seconds};
    } else {
      trial.prediction = predict({.plan = plan,
                                  .segments = trial.segments,
                                  .numbers = std::move(numbers),
                                  .arena_bytes = std::vector<std::int64_t>(plan.world_size(), 0)},
                                 request_.model, request_.costs);
    }
    trial.plan.predicted_step_seconds = trial.prediction.step_seconds;
  });
  result_.simulated += std::ssize(trials);
}

// Chooses pipelines, at most so many, of all kinds (-1) or one, and simulates them. Returns their
// number, or 0 if none fits.
std::int64_t ScaledSearch::try_plan(int only_kind, std::int64_t most_replicas) {
  constexpr int kMostRounds = 8;
  const std::vector<double> usable = usable_bytes_;
  std::int64_t pipelines = 0;
  for (int round = 0; round < kMostRounds && pipelines == 0; ++round) {
    PipelineTables table = menu_.tables(usable_bytes_, false);
    for (int kind = 0; only_kind >= 0 && kind < std::ssize(menu_.kinds()); ++kind) {
      if (kind != only_kind) table.available[kind] = 0;
    }
    const ReplicaResult found = search_replicas(
        table, {.seconds = std::max(0.05, seconds_left() / 4), .most_replicas = most_replicas});
    if (found.pipelines.empty()) break;
    if (consider(found.pipelines)) pipelines = std::ssize(found.pipelines);
  }
  usable_bytes_ = usable;
  return pipelines;
}

bool ScaledSearch::is_kept(const Plan& plan) const {
  return std::any_of(kept_.begin(), kept_.end(),
                     [&](const Trial& trial) { return trial.plan.pipelines == plan.pipelines; });
}

void ScaledSearch::keep(Trial trial) {
  const auto faster = [](const Trial& a, const Trial& b) {
    return a.plan.predicted_step_seconds < b.plan.predicted_step_seconds;
  };
  const auto place = std::upper_bound(kept_.begin(), kept_.end(), trial, faster);
  kept_.insert(place, std::move(trial));
  if (kept_.size() > request_.keep) kept_.pop_back();
}

// The table knows no latency of an exchange, so fewer pipelines are tried, too. To simulate a plan
// takes up to eight times as long with twice the pipelines: it ends in time.
void ScaledSearch::try_more_and_more(int only_kind, double seconds) {
  const double end_s = seconds_now() + seconds;
  for (std::int64_t most = 1;; most *= 2) {
    const double before_s = seconds_now();
    if (try_plan(only_kind, most) < most) return;
    constexpr double kGrowth = 8;
    if (seconds_now() + kGrowth * (seconds_now() - before_s) > end_s) return;
  }
}

// Plans of even replicas: fast to find, whatever the number of devices.
void ScaledSearch::try_even() {
  constexpr int kMostRounds = 4;
  const std::size_t most_plans = request_.quick ? 3 : 8;
  const std::vector<double> usable = usable_bytes_;
  for (int round = 0; round < kMostRounds && kept_.empty(); ++round) {
    const PipelineTables table = menu_.tables(usable_bytes_, false);
    consider_all(EvenReplicas(table).best(most_plans));
  }
  usable_bytes_ = usable;
}

// What is kept is told what memory it takes.
void ScaledSearch::finish_kept() {
  for (Trial& trial : kept_) {
    if (!request_.quick) {
      const std::vector<std::int64_t> arenas = cache_.memory.arenas_of(trial.plan, trial.segments);
      for (RankPrediction& rank : trial.prediction.ranks) {
        rank.arena_bytes = arenas[rank.rank];
      }
    }
    result_.best.push_back({std::move(trial.plan), std::move(trial.prediction)});
  }
  kept_.clear();
}

SearchResult ScaledSearch::run() {
  try_even();
  std::size_t devices = 0;
  for (const std::vector<int>& ranks : menu_.ranks()) {
    devices += ranks.size();
  }
  constexpr std::size_t kFew = 32;
  const bool thorough = (devices <= kFew && !request_.quick) || kept_.empty();
  if (thorough) try_more_and_more(-1, request_.time_limit_s / 2);
  for (int kind = 0; thorough && menu_.kinds().size() > 1 && kind < std::ssize(menu_.kinds());
       ++kind) {
    try_more_and_more(kind, request_.time_limit_s / 4 / static_cast<double>(menu_.kinds().size()));
  }
  if (kept_.empty()) consider({menu_.longest()});  // what needs the least memory
  if (kept_.empty()) return std::move(result_);
  finish_kept();
  result_.bound_seconds = menu_.work_bound();
  if (thorough) {
    const ReplicaResult relaxed = search_replicas(menu_.tables(usable_bytes_, true),
                                                  {.seconds = std::max(0.05, seconds_left() / 2)});
    result_.bound_seconds = std::max(result_.bound_seconds, relaxed.bound_seconds);
  }
  const double step = result_.best.front().prediction.step_seconds;
  result_.bound_seconds = std::min(result_.bound_seconds, step);
  result_.complete = result_.bound_seconds >= 0.999 * step;
  return std::move(result_);
}

}  // namespace hethub
