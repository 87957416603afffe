#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hethub/accel/rank/rank_device.h"

namespace hethub {

/// A rank's program on a device, ready to run: its arena filled with moderate numbers. It computes
/// nothing of use; it takes as long as a micro-batch does.
class LoadedProgram {
 public:
  /// Throws what the backend throws for memory or an op it has not. Keeps references to both.
  LoadedProgram(Backend& backend, const RankPlan& rank);

  /// Runs one phase as a training step does, inputs and losses included, and waits for its end.
  /// Returns the seconds it took.
  double run(Phase phase);

 private:
  void fill();
  void find_inputs();

  RankDevice device_;
  std::vector<std::pair<int, std::vector<std::int32_t>>> inputs_ = {};
  std::vector<float> losses_ = {};
};

}  // namespace hethub
