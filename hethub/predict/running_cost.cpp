#include "hethub/predict/running_cost.h"

#include <string>

namespace hethub {

RunningCost running_cost_of(const Plan& plan, const Cluster& cluster) {
  RunningCost cost;
  bool all_watts = true;
  bool all_prices = true;
  for (const std::string& name : plan.kind_of_rank()) {
    const Kind& kind = kind_named(cluster, name);
    cost.watts += kind.watts;
    cost.usd_per_hour += kind.usd_per_hour;
    all_watts = all_watts && kind.watts > 0;
    all_prices = all_prices && kind.usd_per_hour > 0;
  }
  return {.watts = all_watts ? cost.watts : 0, .usd_per_hour = all_prices ? cost.usd_per_hour : 0};
}

}  // namespace hethub
