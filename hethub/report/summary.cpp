#include "hethub/report/summary.h"

#include <algorithm>
#include <cmath>

namespace hethub {
namespace {

void add_log(const RunLog& log, RunSummary& summary) {
  std::vector<double> seconds;
  std::vector<double> rates;
  for (const LoggedStep& step : log.steps) {
    seconds.push_back(step.step_seconds);
    rates.push_back(step.tokens_per_second);
    summary.peak_resident_bytes = std::max(summary.peak_resident_bytes, step.peak_resident_bytes);
    if (!std::isfinite(step.loss)) continue;
    if (std::isnan(summary.first_loss)) summary.first_loss = step.loss;
    summary.last_loss = step.loss;
  }
  summary.steps = std::ssize(log.steps);
  summary.step_seconds = median_of_steady(std::move(seconds));
  summary.tokens_per_second = median_of_steady(std::move(rates));
  if (log.evaluations.empty()) return;
  summary.first_held_out_loss = log.evaluations.front().loss;
  summary.last_held_out_loss = log.evaluations.back().loss;
}

}  // namespace

double median_of_steady(std::vector<double> values) {
  if (values.empty()) return RunSummary::kNone;
  values.erase(values.begin(), values.begin() + std::ssize(values) / 4);
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

RunSummary summary_of(const ReportData& data) {
  RunSummary summary;
  if (data.log) add_log(*data.log, summary);
  if (data.measured) {
    summary.traced_step_seconds = makespan_s(*data.measured);
    summary.measured_bubble = bubble_fraction(*data.measured);
  }
  if (data.predicted) {
    summary.predicted_step_seconds = makespan_s(*data.predicted);
    summary.prediction_source = "the predicted timeline";
    summary.predicted_bubble = bubble_fraction(*data.predicted);
  }
  if (data.plan.predicted_step_seconds > 0) {
    summary.predicted_step_seconds = data.plan.predicted_step_seconds;
    summary.prediction_source = "the plan";
  }
  const double measured =
      std::isnan(summary.step_seconds) ? summary.traced_step_seconds : summary.step_seconds;
  if (measured > 0) summary.prediction_error = summary.predicted_step_seconds / measured - 1;
  return summary;
}

}  // namespace hethub
