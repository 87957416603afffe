#include "hethub/predict/group_price.h"

#include "hethub/plan/group_ops.h"
#include "hethub/predict/step_builder.h"

namespace hethub {

double GroupPricer::seconds(const GroupStart& op) {
  for (const auto& [known, seconds] : known_) {
    if (known == op) return seconds;
  }
  const StepBuilder builder(costs_);
  known_.emplace_back(op, builder.alone_seconds(devices_, group_algorithm(op, DType::kF32),
                                                group_chunks(op), DType::kF32));
  return known_.back().second;
}

}  // namespace hethub
