#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace hethub {

/// One step as a run's log tells it.
struct LoggedStep {
  std::int64_t step = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();  ///< NaN: the log has none
  double step_seconds = 0;
  double tokens_per_second = 0;
  double predicted_step_seconds = 0;  ///< 0: not known
  std::int64_t peak_resident_bytes = 0;
  bool skipped = false;
};

/// One evaluation on held-out text.
struct LoggedEvaluation {
  std::int64_t step = 0;
  double loss = 0;
};

/// What `train --log-json` wrote.
struct RunLog {
  std::vector<LoggedStep> steps = {};              ///< ascending
  std::vector<LoggedEvaluation> evaluations = {};  ///< ascending
  bool emulated = false;                           ///< the run's devices are emulated
  bool is_void = false;  ///< they did not keep their pace: the times say nothing
};

/// Reads a log. Of a step that a resumed run wrote again, the later line counts. Throws
/// kMissingInput, or kCorruptData naming "file:line" for a line that is no step and no evaluation.
RunLog read_run_log(const std::filesystem::path& file);

/// The same from text; `name` is the file's name in errors.
RunLog parse_run_log(const std::string& text, const std::string& name);

}  // namespace hethub
