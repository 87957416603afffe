#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hethub/cluster/cluster.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// Ranks that nothing tells apart: one kind on one machine.
struct RankClass {
  std::string kind = {};
  int node = 0;
  std::vector<int> ranks = {};  ///< ascending
};

/// The classes of a cluster's ranks, in the order of their first rank.
std::vector<RankClass> rank_classes(const std::vector<RankPlace>& ranks);

/// Numbers a plan's ranks anew without gaps, in the order they had: by the cluster's numbers.
void close_rank_gaps(Plan& plan);

/// A pipeline's stages from first to last, each one rank of the class with that number.
using PipelineShape = std::vector<int>;

/// Every shape of at most `most_stages` stages that the ranks suffice for, in a fixed order.
std::vector<PipelineShape> all_shapes(const std::vector<RankClass>& classes, int most_stages);

/// Calls `visit` with every way to give `layers` layers to `stages` stages, at least one each,
/// lexicographically. Stops when `visit` returns false.
void for_each_split(int layers, int stages,
                    const std::function<bool(const std::vector<int>&)>& visit);

/// Whether the layers of stages on one kind differ by at most one: asked of pipelines that have
/// only one kind.
bool is_even(const std::vector<int>& split);

/// Calls `visit` with every set of at most `most_pipelines` shapes that the ranks suffice for, as
/// ascending positions in `shapes`; a shape may come several times. Ranks may be left over.
/// Stops when `visit` returns false.
void for_each_combination(const std::vector<RankClass>& classes,
                          const std::vector<PipelineShape>& shapes, int most_pipelines,
                          const std::function<bool(const std::vector<int>&)>& visit);

}  // namespace hethub
