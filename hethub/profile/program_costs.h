#pragma once

#include <functional>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/profile/op_timer.h"
#include "hethub/profile/profile.h"

namespace hethub {

/// One phase of a program of some micro-batch size, as it ran and as its ops add up.
struct ProgramTime {
  int micro_batch_size = 0;
  Phase phase = Phase::kForward;
  double seconds = 0;      ///< median, the wait for its end included
  double ops_seconds = 0;  ///< sum of its ops' times, as they were timed one by one
};

/// Runs forward and backward passes of the model at each covered micro-batch size, with as many of
/// its layers as fit the device and a few seconds, and scales the times of the ops that they
/// consist of, so that these add up to what the passes took: inside a program an op meets other
/// caches than when it runs alone. `action_seconds` is what running a program costs beside its ops.
/// Sizes for which the device has not the memory are left out.
std::vector<ProgramTime> calibrate(Backend& backend, const ProfileOptions& options,
                                   double action_seconds, std::vector<OpTime>& times);

/// What running the least program costs beside its op: handing it over, and the wait for its end.
double time_action(Backend& backend);

/// Runs a program of the model over and over until `enough` returns true: keeps a device as busy
/// as training does while others are measured.
void keep_busy(Backend& backend, const ProfileOptions& options,
               const std::function<bool()>& enough);

}  // namespace hethub
