#include "hethub/search/scaled.h"

#include <algorithm>

#include "hethub/base/clock.h"
#include "hethub/search/even_replicas.h"
#include "hethub/search/replica_search.h"

namespace hethub {

ScaledSearch::ScaledSearch(const SearchRequest& request)
    : request_(request),
      own_(request.cache != nullptr ? nullptr
                                    : std::make_unique<SearchCache>(request.model, request.costs,
                                                                    request.sequence_length)),
      cache_(request.cache != nullptr ? *request.cache : *own_),
      menu_(request, cache_),
      begin_s_(seconds_now()) {
  for (const std::string& kind : menu_.kinds()) {
    usable_bytes_.push_back(
        static_cast<double>(kind_named(request.costs.cluster(), kind).memory_bytes -
                            request.costs.fixed_memory_bytes(kind)));
  }
}

double ScaledSearch::seconds_left() const {
  return begin_s_ + request_.time_limit_s - seconds_now();
}

// Whether the plan fits. If not, its kinds are taken to have less by what it lacks.
bool ScaledSearch::fit(const Plan& plan) {
  const std::vector<MemoryFault> faults =
      cache_.memory.faults_of(plan, segments_of(plan, request_.model));
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
    const Plan plan = menu_.plan_of(found.pipelines);
    if (!fit(plan)) continue;
    pipelines = std::ssize(found.pipelines);
    keep(plan);
  }
  usable_bytes_ = usable;
  return pipelines;
}

// The one that needs the least memory.
void ScaledSearch::try_longest() {
  const Plan plan = menu_.plan_of({menu_.longest()});
  if (fit(plan)) keep(plan);
}

bool ScaledSearch::is_kept(const Plan& plan) const {
  return std::any_of(result_.best.begin(), result_.best.end(),
                     [&](const Candidate& one) { return one.plan.pipelines == plan.pipelines; });
}

void ScaledSearch::keep(const Plan& plan) {
  if (is_kept(plan)) return;
  const std::vector<Segment> segments = segments_of(plan, request_.model);
  StepBuilder builder(request_.costs);
  write_step(builder, plan, segments, cache_.pricer.numbers(plan, segments),
             cluster_ranks_of(plan, request_.costs.ranks()), Labels::kNone);
  Candidate candidate{plan};
  candidate.plan.predicted_step_seconds =
      simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
  ++result_.simulated;
  const auto faster = [](const Candidate& a, const Candidate& b) {
    return a.plan.predicted_step_seconds < b.plan.predicted_step_seconds;
  };
  result_.best.insert(std::upper_bound(result_.best.begin(), result_.best.end(), candidate, faster),
                      candidate);
  if (result_.best.size() > request_.keep) result_.best.pop_back();
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
  for (int round = 0; round < kMostRounds && result_.best.empty(); ++round) {
    const PipelineTables table = menu_.tables(usable_bytes_, false);
    for (const auto& pipelines : EvenReplicas(table).best(most_plans)) {
      const bool late = seconds_left() < request_.time_limit_s / 2;
      if (late && !result_.best.empty()) break;
      const Plan plan = menu_.plan_of(pipelines);
      if (!is_kept(plan) && fit(plan)) keep(plan);
    }
  }
  usable_bytes_ = usable;
}

Prediction ScaledSearch::prediction_of(const Plan& plan) {
  if (request_.quick) {
    const auto tokens = static_cast<double>(plan.global_batch * plan.sequence_length);
    return {.step_seconds = plan.predicted_step_seconds,
            .tokens_per_second = tokens / plan.predicted_step_seconds};
  }
  const std::vector<Segment> segments = segments_of(plan, request_.model);
  return predict({.plan = plan,
                  .segments = segments,
                  .numbers = cache_.pricer.numbers(plan, segments),
                  .arena_bytes = cache_.memory.arenas_of(plan, segments)},
                 request_.model, request_.costs);
}

SearchResult ScaledSearch::run() {
  try_even();
  std::size_t devices = 0;
  for (const std::vector<int>& ranks : menu_.ranks()) {
    devices += ranks.size();
  }
  constexpr std::size_t kFew = 32;
  const bool thorough = (devices <= kFew && !request_.quick) || result_.best.empty();
  if (thorough) try_more_and_more(-1, request_.time_limit_s / 2);
  for (int kind = 0; thorough && menu_.kinds().size() > 1 && kind < std::ssize(menu_.kinds());
       ++kind) {
    try_more_and_more(kind, request_.time_limit_s / 4 / static_cast<double>(menu_.kinds().size()));
  }
  if (result_.best.empty()) try_longest();
  if (result_.best.empty()) return std::move(result_);
  for (Candidate& one : result_.best) {
    one.prediction = prediction_of(one.plan);
    one.plan.predicted_step_seconds = one.prediction.step_seconds;
  }
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
