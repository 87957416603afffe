#include "hethub/search/mcmc.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "hethub/base/clock.h"
#include "hethub/plan/alike_pipelines.h"
#include "hethub/search/search_cache.h"

namespace hethub {
namespace {

// Recomputes all of its layers, as before, or its first, as many as before.
void set_layers(Stage& stage, LayerRange layers) {
  const bool all = stage.recompute.size() == 1 && stage.recompute[0].layers == stage.layers.front();
  stage.layers = {layers};
  int left = layers.size();
  int next = layers.begin;
  for (RecomputeRange& again : stage.recompute) {
    const int size = all ? left : std::min(left, again.layers.size());
    again.layers = {next, next + size};
    next += size;
    left -= size;
  }
  std::erase_if(stage.recompute,
                [](const RecomputeRange& again) { return again.layers.size() == 0; });
}

class Walk {
 public:
  Walk(const SearchRequest& request, const Plan& start, double seconds)
      : request_(request),
        own_(own_cache(request)),
        cache_(request.cache != nullptr ? *request.cache : *own_),
        random_(request.seed),
        now_(start),
        best_(start),
        now_seconds_(seconds),
        best_seconds_(seconds) {}

  void run(double end_s) {
    for (int step = 0; step < request_.walk_steps && seconds_now() < end_s; ++step) {
      Plan next = now_;
      if (!change(next)) continue;
      const std::vector<Segment> segments = segments_of(next, request_.model);
      const double seconds =
          cache_.pricer.step_seconds(next, segments, cache_.pricer.numbers(next, segments));
      ++simulated_;
      if (!is_accepted(seconds)) continue;
      if (!cache_.memory.faults_of(next, segments, request_.costs).empty()) continue;
      now_ = std::move(next);
      now_seconds_ = seconds;
      if (seconds >= best_seconds_) continue;
      best_ = now_;
      best_seconds_ = seconds;
    }
  }

  const Plan& best() const { return best_; }
  double best_seconds() const { return best_seconds_; }
  std::int64_t simulated() const { return simulated_; }

 private:
  int below(std::size_t count) {
    return static_cast<int>(std::uniform_int_distribution<std::size_t>(0, count - 1)(random_));
  }

  bool is_accepted(double seconds) {
    constexpr double kCold = 200;  // half a percent slower is gone on with in one of three cases
    const double lost = seconds / now_seconds_ - 1;
    return lost <= 0 || std::uniform_real_distribution<>(0, 1)(random_) < std::exp(-kCold * lost);
  }

  // Whether something changed.
  bool change(Plan& plan) {
    const Pins& pins = request_.pins;
    Pipeline& pipeline = plan.pipelines[below(plan.pipelines.size())];
    switch (below(5)) {
      case 0:
        return pins.stage_layers.empty() && move_layer(plan, pipeline);
      case 1:
        return move_micro_batch(plan, pipeline);
      case 2:
        return pins.stage_kind.empty() && swap_stages(pipeline);
      case 3:
        return !pins.recompute && change_recompute(pipeline);
      default:
        return change_schedule(plan);
    }
  }

  bool move_layer(Plan& plan, const Pipeline& chosen) {
    if (chosen.stages.size() < 2) return false;
    const int first = below(chosen.stages.size() - 1);
    const int border = chosen.stages[first].layers.front().end + (below(2) == 0 ? 1 : -1);
    if (border <= chosen.stages[first].layers.front().begin ||
        border >= chosen.stages[first + 1].layers.front().end) {
      return false;
    }
    const bool all = below(2) == 0;
    const Pipeline model = chosen;
    for (Pipeline& one : plan.pipelines) {
      if (&one != &chosen && !(all && alike_but_for_ranks(one, model))) continue;
      set_layers(one.stages[first], {one.stages[first].layers.front().begin, border});
      set_layers(one.stages[first + 1], {border, one.stages[first + 1].layers.front().end});
    }
    return true;
  }

  bool move_micro_batch(Plan& plan, Pipeline& from) {
    Pipeline& to = plan.pipelines[below(plan.pipelines.size())];
    if (&to == &from || to.micro_batch_size != from.micro_batch_size || from.micro_batches < 2) {
      return false;
    }
    --from.micro_batches;
    ++to.micro_batches;
    return true;
  }

  // Their devices, that is: layers stay where they are.
  bool swap_stages(Pipeline& pipeline) {
    Stage& one = pipeline.stages[below(pipeline.stages.size())];
    Stage& other = pipeline.stages[below(pipeline.stages.size())];
    if (one.kind == other.kind) return false;
    std::swap(one.kind, other.kind);
    std::swap(one.ranks, other.ranks);
    std::swap(one.tensor_parallel, other.tensor_parallel);
    return true;
  }

  bool change_recompute(Pipeline& pipeline) {
    Stage& stage = pipeline.stages[below(pipeline.stages.size())];
    if (stage.recompute.empty()) {
      stage.recompute = {{Recompute::kFull, stage.layers.front()}};
    } else {
      stage.recompute.clear();
    }
    return true;
  }

  bool change_schedule(Plan& plan) {
    const std::vector<std::string> names = request_.allowed_schedules();
    const std::string& name = names[below(names.size())];
    if (name == plan.schedule) return false;
    plan.schedule = name;
    return true;
  }

  const SearchRequest& request_;
  std::unique_ptr<SearchCache> own_;  // where the request brings none
  SearchCache& cache_;
  std::mt19937_64 random_;
  Plan now_;
  Plan best_;
  double now_seconds_;
  double best_seconds_;
  std::int64_t simulated_ = 0;
};

}  // namespace

SearchResult McmcStrategy::find(const SearchRequest& request) const {
  const double begin_s = seconds_now();
  SearchRequest part = request;
  constexpr double kStart = 0.4;
  part.time_limit_s = kStart * request.time_limit_s;
  SearchResult result = make_strategy("exact")->find(part);
  if (result.best.empty()) return result;
  const Candidate& start = result.best.front();
  Walk walk(request, start.plan, start.prediction.step_seconds);
  walk.run(begin_s + request.time_limit_s);
  result.simulated += walk.simulated();
  if (walk.best() == start.plan) return result;
  Candidate better{.plan = walk.best(),
                   .prediction = predict(walk.best(), request.model, request.costs)};
  better.plan.predicted_step_seconds = better.prediction.step_seconds;
  if (better.prediction.step_seconds >= start.prediction.step_seconds) return result;
  result.bound_seconds = std::min(result.bound_seconds, better.prediction.step_seconds);
  result.best.insert(result.best.begin(), std::move(better));
  if (result.best.size() > request.keep) result.best.pop_back();
  return result;
}

}  // namespace hethub
