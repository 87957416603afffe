#pragma once

#include "hethub/cluster/cluster.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// What running a plan takes, from its kinds' watts and prices: every device is paid for, and draws
/// what its kind does at work, for the whole time, waiting included.
struct RunningCost {
  double watts = 0;         ///< of all devices; 0: not stated for every kind
  double usd_per_hour = 0;  ///< likewise

  double joules(double seconds) const { return watts * seconds; }
  double kilowatt_hours(double seconds) const { return joules(seconds) / 3.6e6; }
  double usd(double seconds) const { return usd_per_hour * seconds / 3600; }
};

/// Of the devices that a plan uses. Throws kInvalidConfig for a kind that the cluster has not.
RunningCost running_cost_of(const Plan& plan, const Cluster& cluster);

}  // namespace hethub
