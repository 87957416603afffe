#include "hethub/predict/group_price.h"

#include "hethub/plan/group_ops.h"
#include "hethub/predict/step_builder.h"

namespace hethub {

double GroupPricer::seconds(const GroupStart& op, DType dtype) {
  for (const auto& [known, seconds] : known_) {
    if (known == std::pair(op, dtype)) return seconds;
  }
  const StepBuilder builder(costs_);
  known_.emplace_back(
      std::pair(op, dtype),
      builder.alone_seconds(devices_, group_algorithm(op, dtype), group_chunks(op), dtype));
  return known_.back().second;
}

}  // namespace hethub
