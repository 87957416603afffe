#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "hethub/accel/rank/group_runner.h"
#include "hethub/accel/rank/rank_device.h"
#include "hethub/comm/communicator.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/train/row_exchange.h"

namespace hethub {

/// Performs the group ops of one rank's programs by collectives over its groups of ranks. All are
/// made ready at construction, so that nothing is allocated in a step.
/// Threads: one.
class GroupCollectives : public GroupRunner {
 public:
  /// Communicators have ids from `first_id` on, which nobody else uses. All pointers outlive it.
  GroupCollectives(const RankPlan& rank, DevicePort& port, int first_id,
                   std::chrono::milliseconds timeout);

  void start(const GroupStart& op, DType dtype, const GroupOperands& operands) override;
  void wait() override;

 private:
  struct Known {
    GroupStart op = {};
    DType dtype = DType::kF32;
    std::unique_ptr<PreparedCollective> collective = {};
  };

  void make_ready(const GroupStart& op, DType dtype);
  Known* known(const GroupStart& op, DType dtype);

  Queue& queue_;
  std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<Communicator>> groups_ = {};
  std::vector<Known> known_ = {};
  RowExchanger exchanger_;
  Request request_ = {};
  std::pair<View, View> copy_after_ = {};  // what a scatter's end copies from where to where
};

}  // namespace hethub
