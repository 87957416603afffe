#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "hethub/search/planner_case.h"
#include "hethub/search/sailor_tables.h"

namespace hethub {

/// What the replicas of a stage may run on: positions in SailorTables::devices, at most one width
/// of each kind, by kind. Every one is used.
using SailorMix = std::vector<int>;

/// A stage that the pipelines of a plan share.
struct SailorStage {
  SailorMix mix = {};
  int begin = 0;
  int end = 0;
};

/// Pipelines of one shape, whose stages may run on several kinds.
struct SailorPlan {
  int size = 0;  ///< position in SailorTables::sizes
  int replicas = 0;
  std::vector<SailorStage> stages = {};
  std::vector<std::vector<int>> shares = {};  ///< by stage and position in its mix: replicas
  double seconds = std::numeric_limits<double>::infinity();
};

/// Micro-batches of each pipeline.
std::int64_t micro_batches(const SailorTables& tables, int size, int replicas);

/// Sets the shares. False if no way was found to make the devices suffice.
bool share_out(const SailorTables& tables, SailorPlan& plan);

/// Seconds of a step by Sailor's simulator formula.
double seconds_of(const SailorTables& tables, const SailorPlan& plan);

/// The plan as every pipeline's stages.
std::vector<CasePipeline> pipelines_of(const SailorTables& tables, const SailorPlan& plan);

}  // namespace hethub
