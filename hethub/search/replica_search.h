#pragma once

#include <cstdint>
#include <vector>

#include "hethub/search/pipeline_tables.h"

namespace hethub {

/// How long a search over sets of pipelines goes on.
struct ReplicaLimits {
  double gap = 4e-3;     ///< it ends once nothing can be faster than by this fraction
  int most_boxes = 400;  ///< it ends after so many parts of the space
  double seconds = 30;   ///< or after so long
  std::int64_t most_replicas = 1LL << 40;  ///< no more pipelines
};

/// The best set of pipelines that was found, and what is proven of all others.
struct ReplicaResult {
  std::vector<ChosenPipeline> pipelines = {};  ///< none: nothing fits
  double step_seconds = 0;
  double bound_seconds = 0;  ///< no set of pipelines takes less
  int boxes = 0;             ///< parts of the space that were looked at
};

/// Chooses how many pipelines of which shapes the devices make up, so that a step is shortest.
///
/// Branch and bound. A part of the space bounds the longest update, the longest exchange and the
/// number of pipelines from both sides. In it, the time for the pipelines that a relaxation proves
/// necessary: at that time, whole numbers of pipelines not asked for, a linear program over all
/// shapes can take the global batch. Its shapes are generated as they are needed (PipelinePricing),
/// and the linear program's prices prove the bound. Rounding its answer gives plans.
ReplicaResult search_replicas(const PipelineTables& tables, const ReplicaLimits& limits);

}  // namespace hethub
