#pragma once

#include <memory>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/plan/rank_plan.h"

namespace hethub {

/// A rank's program on a device, ready to run: its arena filled with moderate numbers, every op
/// bound. It computes nothing of use; it takes as long as a micro-batch does.
class LoadedProgram {
 public:
  /// Throws what the backend throws for memory or an op it has not. Keeps references to both.
  LoadedProgram(Backend& backend, const RankPlan& rank);

  /// Runs one phase as a training step does, inputs and losses included, and waits for its end.
  /// Returns the seconds it took.
  double run(Phase phase);

 private:
  struct Bound {
    PreparedOp* op = nullptr;
    std::vector<View> inputs = {};
    std::vector<View> outputs = {};
    View workspace = {};
  };
  View view(int value) const;
  void fill();

  const RankPlan& rank_;
  std::unique_ptr<Buffer> arena_;
  std::unique_ptr<Queue> queue_;
  std::vector<std::pair<Op, std::unique_ptr<PreparedOp>>> prepared_ = {};
  std::vector<std::vector<Bound>> phases_ = {};
  std::vector<std::pair<int, std::vector<std::int32_t>>> inputs_ = {};
  std::vector<float> losses_ = {};
};

}  // namespace hethub
