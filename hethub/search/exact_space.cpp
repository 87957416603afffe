#include <algorithm>

#include "hethub/search/exact.h"

// What an exact search looks through: shapes of pipelines and splits of the layers over them.

namespace hethub {
namespace {

// Ways to give `layers` layers to `stages` stages.
double ways_to_split(int layers, int stages) {
  double ways = 1;
  for (int stage = 1; stage < stages; ++stage) {
    ways *= static_cast<double>(layers - stage) / stage;
  }
  return ways;
}

// Those whose sizes differ by at most one, in the order of for_each_split.
std::vector<std::vector<int>> even_splits_of(int layers, int stages) {
  std::vector<int> split(static_cast<std::size_t>(stages), layers / stages);
  std::fill(split.end() - layers % stages, split.end(), layers / stages + 1);
  std::vector<std::vector<int>> all;
  do {
    all.push_back(split);
  } while (std::next_permutation(split.begin(), split.end()));
  return all;
}

}  // namespace

std::vector<RankClass> ExactSearch::usable_classes(const SearchRequest& request) {
  std::vector<RankClass> classes = rank_classes(request.costs.ranks());
  std::erase_if(classes, [&](const RankClass& one) { return !request.pins.allow(one.kind); });
  return classes;
}

double ExactSearch::splits_of_space(const SearchRequest& request) {
  double all = 0;
  for (const PipelineShape& shape : all_shapes(usable_classes(request), request.model.layers)) {
    all += ways_to_split(request.model.layers, static_cast<int>(shape.size()));
  }
  return all;
}

bool ExactSearch::shape_pinned_out(const PipelineShape& shape) const {
  const Pins& pins = request_.pins;
  if (pins.stages && std::ssize(shape) != *pins.stages) return true;
  for (const auto& [stage, kind] : pins.stage_kind) {
    if (stage >= std::ssize(shape) || classes_[shape[stage]].kind != kind) return true;
  }
  return false;
}

bool ExactSearch::split_pinned_out(const std::vector<int>& split) const {
  for (const auto& [stage, layers] : request_.pins.stage_layers) {
    if (stage >= std::ssize(split) || split[stage] != layers) return true;
  }
  return false;
}

bool ExactSearch::is_mixed(const PipelineShape& shape) const {
  return std::any_of(shape.begin(), shape.end(), [&](int which) {
    return classes_[which].kind != classes_[shape.front()].kind;
  });
}

void ExactSearch::list_shapes() {
  const int layers = request_.model.layers;
  std::size_t longest = 0;
  for (PipelineShape& shape : all_shapes(classes_, layers)) {
    longest = std::max(longest, shape.size());
    if (!shape_pinned_out(shape)) shapes_.push_back(std::move(shape));
  }
  splits_.resize(longest + 1);
  even_splits_.resize(longest + 1);
  const bool pinned = !request_.pins.stage_layers.empty();
  for (std::size_t stages = 1; stages <= longest; ++stages) {
    const bool mixed = std::any_of(shapes_.begin(), shapes_.end(), [&](const auto& shape) {
      return shape.size() == stages && is_mixed(shape);
    });
    if (!pinned && !mixed) {
      even_splits_[stages] = even_splits_of(layers, static_cast<int>(stages));
      continue;
    }
    for_each_split(layers, static_cast<int>(stages), [&](const std::vector<int>& split) {
      if (!split_pinned_out(split)) {
        splits_[stages].push_back(split);
        if (pinned || is_even(split)) even_splits_[stages].push_back(split);
      }
      return !out_of_time();
    });
  }
  const auto splits_for = [&](const PipelineShape& shape) {
    return &(is_mixed(shape) ? splits_ : even_splits_)[shape.size()];
  };
  std::erase_if(shapes_, [&](const PipelineShape& shape) { return splits_for(shape)->empty(); });
  for (const PipelineShape& shape : shapes_) {
    shape_splits_.push_back(splits_for(shape));
  }
  capacities_.assign(shapes_.size(), {0, -1});
  listed_ = !stopped_;
}

// In time, all splits of all shapes; of what there is no time for, the first.
void ExactSearch::rate_shapes() {
  for (std::size_t shape = 0; shape < shapes_.size(); ++shape) {
    const auto& splits = splits_of(static_cast<int>(shape));
    int best = 0;
    double most = tables_.rate(shapes_[shape], splits.front());
    for (int split = 1; split < std::ssize(splits) && !out_of_time(); ++split) {
      const double rate = tables_.rate(shapes_[shape], splits[split]);
      if (rate <= most) continue;
      most = rate;
      best = split;
    }
    rates_.push_back(most);
    best_splits_.push_back(best);
  }
}

}  // namespace hethub
