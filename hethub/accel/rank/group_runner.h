#pragma once

#include <span>

#include "hethub/accel/backend.h"
#include "hethub/op/op.h"

namespace hethub {

/// The memory of a group op, as its facts state it.
struct GroupOperands {
  std::span<const View> inputs = {};
  std::span<const View> outputs = {};
  View workspace = {};
};

/// What performs the group ops of a rank's programs: no device does it alone. `train` implements it
/// on communicators. Threads: that of the device's queue.
class GroupRunner {
 public:
  virtual ~GroupRunner() = default;

  /// Begins `op` on its inputs, after the work queued so far; these, its outputs and the workspace
  /// are its own until wait.
  virtual void start(const GroupStart& op, DType dtype, const GroupOperands& operands) = 0;

  /// Ends what start began: work queued from now on sees y.
  virtual void wait() = 0;
};

}  // namespace hethub
