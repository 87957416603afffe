#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "hethub/search/strategy.h"

namespace hethub {

/// Every plan of the space that "exact" searches, written down without any of the planner's means:
/// sequences of ranks, splits, batches, recompute and schedules. Of devices that nothing tells
/// apart, the first that is free is taken.
class BruteForce {
 public:
  /// Keeps a reference. `visit` returns false to end the walk.
  BruteForce(const SearchRequest& request, std::function<bool(const Plan&)> visit)
      : request_(request), visit_(std::move(visit)) {
    plan_.sequence_length = request.sequence_length;
    plan_.global_batch = request.global_batch;
  }

  /// Whether stages may recompute their first layers, as many as they like.
  bool recompute = false;

  /// False if `visit` ended it.
  bool run() {
    std::vector<bool> used(request_.costs.ranks().size(), false);
    add_pipeline(used);
    return !ended_;
  }

 private:
  const RankPlace& place(int rank) const { return request_.costs.ranks()[rank]; }

  bool may_take(const std::vector<bool>& used, int rank) const {
    if (used[rank] || !request_.pins.allow(place(rank).kind)) return false;
    for (int before = 0; before < rank; ++before) {
      const bool alike =
          place(before).kind == place(rank).kind && place(before).node == place(rank).node;
      if (alike && !used[before]) return false;
    }
    return true;
  }

  // In every order: it decides who has which of devices that nothing tells apart.
  void add_pipeline(std::vector<bool>& used) {
    const auto pinned = request_.pins.pipelines;
    const auto count = static_cast<int>(sequences_.size());
    if (count > 0 && (!pinned || count == *pinned)) fill_layers(0);
    if (count >= pinned.value_or(static_cast<int>(request_.global_batch))) return;
    for (int rank = 0; rank < std::ssize(used) && !ended_; ++rank) {
      if (!may_take(used, rank)) continue;
      sequences_.push_back({rank});
      used[rank] = true;
      grow(used);
      used[rank] = false;
      sequences_.pop_back();
    }
  }

  void grow(std::vector<bool>& used) {
    const auto stages = static_cast<int>(sequences_.back().size());
    const auto pinned = request_.pins.stages;
    if (!kind_allowed(stages - 1)) return;
    if (!pinned || stages == *pinned) add_pipeline(used);
    if (stages == std::min(request_.model.layers, pinned.value_or(request_.model.layers))) return;
    for (int rank = 0; rank < std::ssize(used) && !ended_; ++rank) {
      if (!may_take(used, rank)) continue;
      sequences_.back().push_back(rank);
      used[rank] = true;
      grow(used);
      used[rank] = false;
      sequences_.back().pop_back();
    }
  }

  bool kind_allowed(int stage) const {
    const auto found = request_.pins.stage_kind.find(stage);
    return found == request_.pins.stage_kind.end() ||
           place(sequences_.back()[stage]).kind == found->second;
  }

  bool one_kind(const std::vector<int>& ranks) const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return place(rank).kind == place(ranks[0]).kind; });
  }

  // Layers of equal devices differ by one at most, unless some are pinned.
  bool may_split(const std::vector<int>& ranks, const std::vector<int>& split) const {
    const std::map<int, int>& pinned = request_.pins.stage_layers;
    for (const auto& [stage, layers] : pinned) {
      if (stage >= std::ssize(split) || split[stage] != layers) return false;
    }
    const auto [least, most] = std::minmax_element(split.begin(), split.end());
    return !pinned.empty() || !one_kind(ranks) || *most - *least <= 1;
  }

  void fill_layers(std::size_t pipeline) {
    if (ended_) return;
    if (pipeline == sequences_.size()) {
      fill_batches(0, request_.global_batch);
      return;
    }
    splits_.emplace_back();
    split(pipeline, request_.model.layers);
    splits_.pop_back();
  }

  void split(std::size_t pipeline, int left) {
    const std::vector<int>& ranks = sequences_[pipeline];
    if (splits_.back().size() == ranks.size()) {
      if (left == 0 && may_split(ranks, splits_.back())) {
        const std::vector<int> mine = splits_.back();
        fill_layers(pipeline + 1);
        splits_.back() = mine;
      }
      return;
    }
    for (int layers = 1; layers <= left && !ended_; ++layers) {
      splits_.back().push_back(layers);
      split(pipeline, left - layers);
      splits_.back().pop_back();
    }
  }

  void fill_batches(std::size_t pipeline, std::int64_t left) {
    if (ended_) return;
    if (pipeline == sequences_.size()) {
      if (left == 0) emit();
      return;
    }
    for (const int size : request_.micro_batch_sizes) {
      if (request_.pins.micro_batch_size.value_or(size) != size) continue;
      for (int count = 1; std::int64_t{count} * size <= left; ++count) {
        batches_.emplace_back(size, count);
        fill_batches(pipeline + 1, left - std::int64_t{count} * size);
        batches_.pop_back();
      }
    }
  }

  void emit() {
    std::vector<int> used;
    for (const auto& ranks : sequences_) {
      used.insert(used.end(), ranks.begin(), ranks.end());
    }
    std::sort(used.begin(), used.end());
    plan_.pipelines.clear();
    for (std::size_t index = 0; index < sequences_.size(); ++index) {
      Pipeline pipeline{.micro_batch_size = batches_[index].first,
                        .micro_batches = batches_[index].second};
      int begin = 0;
      for (std::size_t at = 0; at < sequences_[index].size(); ++at) {
        const int rank = sequences_[index][at];
        const LayerRange layers = {begin, begin + splits_[index][at]};
        const auto place = std::lower_bound(used.begin(), used.end(), rank) - used.begin();
        pipeline.stages.push_back({.kind = request_.costs.ranks()[rank].kind,
                                   .ranks = {static_cast<int>(place)},
                                   .layers = {layers}});
        begin = layers.end;
      }
      plan_.pipelines.push_back(std::move(pipeline));
    }
    choose_recompute(0, 0);
  }

  void choose_recompute(std::size_t pipeline, std::size_t stage) {
    if (ended_) return;
    if (pipeline == plan_.pipelines.size()) return choose_schedule();
    if (stage == plan_.pipelines[pipeline].stages.size()) return choose_recompute(pipeline + 1, 0);
    Stage& one = plan_.pipelines[pipeline].stages[stage];
    const LayerRange layers = one.layers.front();
    choose_recompute(pipeline, stage + 1);
    for (const Recompute kind : {Recompute::kSelective, Recompute::kFull}) {
      for (int end = layers.begin + 1; recompute && end <= layers.end; ++end) {
        plan_.pipelines[pipeline].stages[stage].recompute = {{kind, {layers.begin, end}}};
        choose_recompute(pipeline, stage + 1);
      }
    }
    plan_.pipelines[pipeline].stages[stage].recompute.clear();
  }

  void choose_schedule() {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      if (!request_.pins.schedule.empty() && request_.pins.schedule != schedule) continue;
      plan_.schedule = schedule;
      ended_ = ended_ || !visit_(plan_);
    }
  }

  const SearchRequest& request_;
  std::function<bool(const Plan&)> visit_;
  Plan plan_;
  std::vector<std::vector<int>> sequences_;
  std::vector<std::vector<int>> splits_;
  std::vector<std::pair<int, int>> batches_;
  bool ended_ = false;
};

/// The seconds of the fastest plan that fits, by predicting all of them in full; infinity if none
/// does. Adds their number to `plans`; `fastest` takes the plan.
inline double brute_force(const SearchRequest& request, bool recompute, int& plans,
                          Plan* fastest = nullptr) {
  double best = std::numeric_limits<double>::infinity();
  BruteForce all(request, [&](const Plan& plan) {
    ++plans;
    const Prediction prediction = predict(plan, request.model, request.costs);
    if (prediction.fullest().free_bytes() >= 0 && prediction.step_seconds < best) {
      best = prediction.step_seconds;
      if (fastest != nullptr) *fastest = plan;
    }
    return true;
  });
  all.recompute = recompute;
  all.run();
  return best;
}

}  // namespace hethub
