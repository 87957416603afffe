#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/segments.h"
#include "hethub/program/memory.h"

namespace hethub {

/// A rank that does not fit its device.
struct MemoryFault {
  int rank = 0;
  std::string kind = {};
  std::int64_t bytes_short = 0;
};

/// Whether plans fit the memory of their devices, by the MemoryPlan that their ranks will have.
/// Calls may come from several threads at once.
class MemoryCheck {
 public:
  /// Keeps a reference.
  explicit MemoryCheck(const ModelConfig& model) : model_(model) {}

  /// The arena of every rank of a valid plan, in bytes.
  std::vector<std::int64_t> arenas_of(const Plan& plan, const std::vector<Segment>& segments);

  /// The ranks that do not fit that cluster's devices, in rank order.
  std::vector<MemoryFault> faults_of(const Plan& plan, const std::vector<Segment>& segments,
                                     const CostModel& costs);

 private:
  /// What a rank's arena is made of, whatever the number of its lanes.
  struct ArenaShape {
    std::int64_t persistent = 0;
    std::int64_t running = 0;                   // what one action shares with the others
    std::int64_t between = 0;                   // what lies there between steps
    std::vector<std::int64_t> lane_bytes = {};  // by program
  };
  static ArenaShape shape_of(const MemoryPlan& memory);
  static std::int64_t arena_of(const ArenaShape& shape, const std::vector<int>& lanes);

  const ModelConfig& model_;
  std::mutex mutex_;                         // for what follows
  std::map<std::string, ArenaShape> known_;  // by RankSignatures, but for lanes
  SegmentScratch scratch_;
};

}  // namespace hethub
