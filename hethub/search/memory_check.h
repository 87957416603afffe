#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/plan/segments.h"

namespace hethub {

/// A rank that does not fit its device.
struct MemoryFault {
  int rank = 0;
  std::string kind = {};
  std::int64_t bytes_short = 0;
};

/// Whether plans fit the memory of their devices, by the MemoryPlan that their ranks will have.
class MemoryCheck {
 public:
  /// Keeps references to both.
  MemoryCheck(const ModelConfig& model, const CostModel& costs);

  /// The ranks that do not fit, in rank order.
  std::vector<MemoryFault> faults_of(const Plan& plan, const std::vector<Segment>& segments);

 private:
  const ModelConfig& model_;
  const CostModel& costs_;
  std::map<std::string, std::int64_t> arenas_;  // by RankSignatures
};

}  // namespace hethub
