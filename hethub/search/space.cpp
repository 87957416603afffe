#include "hethub/search/space.h"

#include <algorithm>
#include <map>

namespace hethub {
namespace {

std::vector<int> counts_of(const std::vector<RankClass>& classes) {
  std::vector<int> counts;
  for (const RankClass& one : classes) {
    counts.push_back(static_cast<int>(one.ranks.size()));
  }
  return counts;
}

void extend(std::vector<int>& free, std::size_t most_stages, PipelineShape& shape,
            std::vector<PipelineShape>& all) {
  if (shape.size() == most_stages) return;
  for (std::size_t which = 0; which < free.size(); ++which) {
    if (free[which] == 0) continue;
    --free[which];
    shape.push_back(static_cast<int>(which));
    all.push_back(shape);
    extend(free, most_stages, shape, all);
    shape.pop_back();
    ++free[which];
  }
}

bool split_rest(int layers, std::size_t stages, std::vector<int>& split,
                const std::function<bool(const std::vector<int>&)>& visit) {
  const int stages_left = static_cast<int>(stages - split.size());
  if (stages_left == 1) {
    split.push_back(layers);
    const bool go_on = visit(split);
    split.pop_back();
    return go_on;
  }
  for (int mine = 1; mine <= layers - (stages_left - 1); ++mine) {
    split.push_back(mine);
    const bool go_on = split_rest(layers - mine, stages, split, visit);
    split.pop_back();
    if (!go_on) return false;
  }
  return true;
}

// Adds shapes from position `first` on to `chosen`, as long as ranks are left.
class Combiner {
 public:
  Combiner(const std::vector<PipelineShape>& shapes, int classes, std::size_t most,
           const std::function<bool(const std::vector<int>&)>& visit)
      : most_(most), visit_(visit) {
    for (const PipelineShape& shape : shapes) {
      needs_.emplace_back(classes, 0);
      for (const int which : shape) {
        ++needs_.back()[which];
      }
    }
  }

  bool extend(std::vector<int>& free, std::size_t first) {
    if (chosen_.size() == most_) return true;
    for (std::size_t shape = first; shape < needs_.size(); ++shape) {
      if (!take(free, needs_[shape])) continue;
      chosen_.push_back(static_cast<int>(shape));
      const bool go_on = visit_(chosen_) && extend(free, shape);
      chosen_.pop_back();
      for (std::size_t which = 0; which < free.size(); ++which) {
        free[which] += needs_[shape][which];
      }
      if (!go_on) return false;
    }
    return true;
  }

 private:
  static bool take(std::vector<int>& free, const std::vector<int>& need) {
    for (std::size_t which = 0; which < free.size(); ++which) {
      if (free[which] < need[which]) return false;
    }
    for (std::size_t which = 0; which < free.size(); ++which) {
      free[which] -= need[which];
    }
    return true;
  }

  std::size_t most_;
  const std::function<bool(const std::vector<int>&)>& visit_;
  std::vector<std::vector<int>> needs_;  // by shape and class
  std::vector<int> chosen_;
};

}  // namespace

void close_rank_gaps(Plan& plan) {
  std::vector<int> used;
  for (const Pipeline& pipeline : plan.pipelines) {
    for (const Stage& stage : pipeline.stages) {
      used.insert(used.end(), stage.ranks.begin(), stage.ranks.end());
    }
  }
  std::sort(used.begin(), used.end());
  for (Pipeline& pipeline : plan.pipelines) {
    for (Stage& stage : pipeline.stages) {
      for (int& rank : stage.ranks) {
        rank = static_cast<int>(std::lower_bound(used.begin(), used.end(), rank) - used.begin());
      }
    }
  }
}

std::vector<RankClass> rank_classes(const std::vector<RankPlace>& ranks) {
  std::vector<RankClass> classes;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPlace& place = ranks[rank];
    auto found = std::find_if(classes.begin(), classes.end(), [&](const RankClass& one) {
      return one.kind == place.kind && one.node == place.node;
    });
    if (found == classes.end()) {
      found = classes.insert(found, {.kind = place.kind, .node = place.node});
    }
    found->ranks.push_back(static_cast<int>(rank));
  }
  return classes;
}

std::vector<PipelineShape> all_shapes(const std::vector<RankClass>& classes, int most_stages) {
  std::vector<PipelineShape> all;
  std::vector<int> free = counts_of(classes);
  PipelineShape shape;
  extend(free, most_stages < 0 ? 0 : most_stages, shape, all);
  return all;
}

void for_each_split(int layers, int stages,
                    const std::function<bool(const std::vector<int>&)>& visit) {
  if (stages < 1 || layers < stages) return;
  std::vector<int> split;
  split_rest(layers, stages, split, visit);
}

bool is_even(const std::vector<int>& split) {
  const auto [least, most] = std::minmax_element(split.begin(), split.end());
  return split.empty() || *most - *least <= 1;
}

void for_each_combination(const std::vector<RankClass>& classes,
                          const std::vector<PipelineShape>& shapes, int most_pipelines,
                          const std::function<bool(const std::vector<int>&)>& visit) {
  std::vector<int> free = counts_of(classes);
  const auto most = static_cast<std::size_t>(std::max(most_pipelines, 0));
  Combiner(shapes, static_cast<int>(classes.size()), most, visit).extend(free, 0);
}

}  // namespace hethub
