#pragma once

#include "hethub/accel/backend.h"
#include "hethub/op/op.h"

namespace hethub {

/// What performs the group ops of a rank's programs: no device does it alone. `train` implements it
/// on communicators. Threads: that of the device's queue.
class GroupRunner {
 public:
  virtual ~GroupRunner() = default;

  /// Begins `op` on x, after the work queued so far; y and the workspace are its own until wait.
  virtual void start(const GroupStart& op, DType dtype, View x, View y, View workspace) = 0;

  /// Ends what start began: work queued from now on sees y.
  virtual void wait() = 0;
};

}  // namespace hethub
