#include "hethub/search/schedule_variants.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "hethub/base/split.h"
#include "hethub/plan/each_rank.h"
#include "hethub/plan/interleaved.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/search/parallel.h"
#include "hethub/search/search_cache.h"

namespace hethub {
namespace {

// Differences below this say nothing of what is faster on devices.
constexpr double kWorthIt = 0.995;

bool recomputes_all(const Stage& stage) {
  return stage.recompute.size() == 1 && stage.recompute.front().layers == stage.layers.front();
}

bool may_interleave(const Pipeline& pipeline, int ranges) {
  return can_interleave(static_cast<int>(pipeline.stages.size()), pipeline.micro_batches) &&
         std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
           return stage.layers.size() == 1 && stage.layers.front().size() >= ranges &&
                  (stage.recompute.empty() || recomputes_all(stage));
         });
}

bool has_pipelines(const Plan& plan) {
  return std::any_of(plan.pipelines.begin(), plan.pipelines.end(),
                     [](const Pipeline& one) { return one.stages.size() > 1; });
}

int recomputed(const Stage& stage) {
  int layers = 0;
  for (const RecomputeRange& range : stage.recompute) {
    layers += range.layers.size();
  }
  return layers;
}

int layers_of(const Stage& stage) {
  int layers = 0;
  for (const LayerRange& range : stage.layers) {
    layers += range.size();
  }
  return layers;
}

void recompute_first(Stage& stage, int layers) {
  stage.recompute.clear();
  for (const LayerRange& range : stage.layers) {
    const int some = std::min(layers, range.size());
    if (some > 0) {
      stage.recompute.push_back({Recompute::kFull, {range.begin, range.begin + some}});
    }
    layers -= some;
  }
}

// The bytes that stages lack, by pipeline and stage.
std::map<std::pair<int, int>, std::int64_t> shortages(const Plan& plan,
                                                      const std::vector<MemoryFault>& faults) {
  std::map<int, std::int64_t> of_rank;
  for (const MemoryFault& fault : faults) {
    of_rank[fault.rank] = fault.bytes_short;
  }
  std::map<std::pair<int, int>, std::int64_t> lacks;
  for_each_rank(plan, [&](const RankPosition& at, int rank) {
    const auto found = of_rank.find(rank);
    if (found == of_rank.end()) return;
    std::int64_t& most = lacks[{at.pipeline, at.stage}];
    most = std::max(most, found->second);
  });
  return lacks;
}

// Prices plans and keeps the best.
class Variants {
 public:
  Variants(const SearchRequest& request, double seconds)
      : request_(request),
        own_(own_cache(request)),
        cache_(request.cache != nullptr ? *request.cache : *own_),
        seconds_(seconds) {}

  const std::optional<Plan>& best() const { return best_; }
  double seconds() const { return seconds_; }
  std::int64_t simulated() const { return simulated_; }

  // Whether one of them is worth it. Memory is planned of the fastest first.
  bool add(std::vector<Plan> plans) {
    for_each_in_parallel(static_cast<int>(plans.size()), [&](int index) {
      const std::vector<Segment> segments = segments_of(plans[index], request_.model);
      plans[index].predicted_step_seconds = is_hopeless(plans[index], segments)
                                                ? std::numeric_limits<double>::infinity()
                                                : step_seconds(plans[index], segments);
    });
    simulated_ += std::ssize(plans);
    std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
      return a.predicted_step_seconds < b.predicted_step_seconds;
    });
    for (Plan& plan : plans) {
      if (!(plan.predicted_step_seconds < kWorthIt * seconds_)) return false;
      if (fit(std::move(plan))) return true;
    }
    return false;
  }

 private:
  // Whether a kind's first stage, which has most micro-batches alive, needs more than twice its
  // memory: recomputing layers would not mend that, and the plan's time need not be known.
  bool is_hopeless(const Plan& plan, const std::vector<Segment>& segments) const {
    const Schedule schedule = schedule_of(plan, 0);
    const std::vector<Stage>& stages = plan.pipelines.front().stages;
    for (int stage = 0; stage < std::ssize(stages); ++stage) {
      if (stage > 0 && stages[stage].kind == stages[stage - 1].kind) continue;
      const RankPlan first =
          make_rank_plan(plan, request_.model, segments, {0, stage, 0}, schedule);
      const std::int64_t have = kind_named(request_.costs.cluster(), first.kind).memory_bytes -
                                request_.costs.fixed_memory_bytes(first.kind);
      if (first.memory.arena_bytes > 2 * have) return true;
    }
    return false;
  }

  bool fit(Plan plan) {
    const std::vector<Segment> segments = segments_of(plan, request_.model);
    std::optional<Plan> fits = fitted_plan(plan, segments, cache_.memory, request_.costs);
    if (!fits) return false;
    if (fits->pipelines != plan.pipelines) {
      fits->predicted_step_seconds = step_seconds(*fits, segments);
    }
    if (fits->predicted_step_seconds > kWorthIt * seconds_) return false;
    seconds_ = fits->predicted_step_seconds;
    best_ = std::move(fits);
    return true;
  }

  double step_seconds(const Plan& plan, const std::vector<Segment>& segments) {
    return cache_.pricer.step_seconds(plan, segments, cache_.pricer.numbers(plan, segments));
  }

  const SearchRequest& request_;
  std::unique_ptr<SearchCache> own_;  // where the request brings none
  SearchCache& cache_;
  double seconds_;  // of the fastest so far
  std::optional<Plan> best_ = {};
  std::int64_t simulated_ = 0;
};

}  // namespace

std::optional<Plan> interleaved_plan(Plan plan, int ranges) {
  plan.schedule = "interleaved";
  for (Pipeline& pipeline : plan.pipelines) {
    if (!may_interleave(pipeline, ranges)) return std::nullopt;
    std::vector<int> sizes;
    for (Stage& stage : pipeline.stages) {
      sizes.push_back(stage.layers.front().size());
      stage.layers.clear();
    }
    int next = 0;
    for (int range = 0; range < ranges; ++range) {
      for (std::size_t at = 0; at < sizes.size(); ++at) {
        const auto layers = static_cast<int>(part_of(sizes[at], ranges, range).size());
        pipeline.stages[at].layers.push_back({next, next + layers});
        next += layers;
      }
    }
    for (Stage& stage : pipeline.stages) {
      if (stage.recompute.empty()) continue;
      const Recompute kind = stage.recompute.front().kind;
      stage.recompute.clear();
      for (const LayerRange& layers : stage.layers) {
        stage.recompute.push_back({kind, layers});
      }
    }
  }
  return plan;
}

std::optional<Plan> fitted_plan(Plan plan, const std::vector<Segment>& segments,
                                MemoryCheck& memory, const CostModel& costs) {
  constexpr int kMostRounds = 4;
  std::map<std::pair<int, int>, std::int64_t> before;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto lacks = shortages(plan, memory.faults_of(plan, segments, costs));
    if (lacks.empty()) return plan;
    for (const auto& [at, bytes] : lacks) {
      Stage& stage = plan.pipelines[at.first].stages[at.second];
      const int now = recomputed(stage);
      const auto known = before.find(at);
      if (now > 0 && known == before.end()) return std::nullopt;  // the search's own choice
      // Each layer so far saved as much as another will.
      const std::int64_t saved = known == before.end() ? 0 : (known->second - bytes) / now;
      if (now > 0 && saved <= 0) return std::nullopt;
      const int more = now == 0 ? 1 : static_cast<int>((bytes + saved - 1) / saved);
      if (now + more > layers_of(stage)) return std::nullopt;
      before.try_emplace(at, bytes);
      recompute_first(stage, now + more);
    }
  }
  return std::nullopt;
}

void vary_schedule(SearchResult& result, const SearchRequest& request) {
  if (result.best.empty()) return;
  const std::string& only = request.pins.variant;
  const Candidate base = result.best.front();
  if (!only.empty()) result.best.clear();
  if (!has_pipelines(base.plan)) return;
  result.tried_schedules = true;
  Variants variants(request, only.empty() ? base.prediction.step_seconds
                                          : std::numeric_limits<double>::infinity());
  std::vector<Plan> plans;
  constexpr std::array kRanges = {3, 4, 6, 8};
  const auto add = [&](int ranges) {
    std::optional<Plan> plan = interleaved_plan(base.plan, ranges);
    if (plan) plans.push_back(std::move(*plan));
    return plan.has_value();
  };
  if (only != "interleaved") {
    plans.push_back(base.plan);
    plans.back().schedule = "zero-bubble";
  }
  if (only != "zero-bubble" && !add(kRanges.front())) add(2);
  variants.add(std::move(plans));
  const auto interleaves = [&] {
    return variants.best() && variants.best()->schedule == "interleaved";
  };
  for (std::size_t next = 1; interleaves() && next < kRanges.size(); ++next) {
    plans.clear();
    if (!add(kRanges[next]) || !variants.add(std::move(plans))) break;
  }
  result.simulated += variants.simulated();
  if (!variants.best()) return;
  Candidate best{.plan = *variants.best()};
  if (request.quick) {
    best.prediction = base.prediction;
    best.prediction.step_seconds = variants.seconds();
    best.prediction.tokens_per_second *= base.prediction.step_seconds / variants.seconds();
  } else {
    best.prediction = predict(best.plan, request.model, request.costs);
    best.plan.predicted_step_seconds = best.prediction.step_seconds;
  }
  result.bound_seconds = std::min(result.bound_seconds, best.prediction.step_seconds);
  result.best.insert(result.best.begin(), std::move(best));
  if (result.best.size() > request.keep) result.best.pop_back();
}

}  // namespace hethub
