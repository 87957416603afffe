#pragma once

#include <limits>
#include <string>
#include <vector>

#include "hethub/report/report_data.h"

namespace hethub {

/// A run in a few numbers; NaN where the run left nothing to say it.
struct RunSummary {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::int64_t steps = 0;  ///< in the log
  double first_loss = kNone;
  double last_loss = kNone;
  double first_held_out_loss = kNone;
  double last_held_out_loss = kNone;
  double step_seconds = kNone;       ///< measured, see median_of_steady
  double tokens_per_second = kNone;  ///< likewise
  double predicted_step_seconds = kNone;
  std::string prediction_source = {};  ///< "the plan" or "the predicted timeline"
  double prediction_error = kNone;     ///< predicted / measured - 1
  double traced_step_seconds = kNone;  ///< of the measured timeline's step
  double measured_bubble = kNone;      ///< share of the ranks' time without compute
  double predicted_bubble = kNone;
  std::int64_t peak_resident_bytes = 0;  ///< of rank 0's process; 0: not known
};

RunSummary summary_of(const ReportData& data);

/// The median without the first quarter of the values, in which caches and pools warm up; NaN if
/// there is none.
double median_of_steady(std::vector<double> values);

}  // namespace hethub
