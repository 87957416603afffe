#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hethub/train/rank_worker.h"

namespace hethub {

/// What a run knows beside a step's result, for its progress line.
struct ProgressFacts {
  std::int64_t step = 0;  ///< done, this one included
  std::int64_t total_steps = 0;
  double step_seconds = 0;       ///< wall time of this step
  double predicted_seconds = 0;  ///< by the plan; 0: not known
  double flops_per_token = 0;    ///< model FLOPs
  double gemm_flops_per_s = 0;   ///< sum of the devices' measured rates; 0: not known
  double seconds_left = 0;       ///< 0: not known yet
  std::int64_t arena_bytes = 0;  ///< the largest rank's
  std::int64_t skipped_steps = 0;
  bool emulated = false;  ///< some device keeps another kind's pace
};

/// "step 12/300 | loss 5.1234 | 1234 tok/s | 0.83 s (predicted 0.81, +2.5%) | ..."
std::string progress_line(const StepResult& result, const ProgressFacts& facts);

/// The same fields as one JSON object, without a line feed.
std::string progress_json(const StepResult& result, const ProgressFacts& facts);

/// "2:05:09", "5:09".
std::string duration_text(double seconds);

/// This process's largest resident set so far (VmHWM), in bytes; 0 if it is not known.
std::int64_t peak_resident_bytes();

}  // namespace hethub
