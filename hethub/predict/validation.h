#pragma once

#include <map>
#include <string>
#include <vector>

#include "hethub/predict/published_run.h"
#include "hethub/predict/run_pricer.h"

namespace hethub {

/// A published run beside its prediction.
struct ValidatedRun {
  PublishedRun run = {};
  RunPrediction predicted = {};

  double error() const { return predicted.step_s / run.measured_s - 1; }
};

/// How far the predictions of one source are off; of |predicted / measured - 1|.
struct ErrorSummary {
  int rows = 0;
  double mean_abs_error = 0;
  double median_abs_error = 0;
  double max_abs_error = 0;
  double mean_error = 0;        ///< with its sign
  double rank_correlation = 0;  ///< Spearman's, of the step times
};

/// What choosing by prediction costs: of each model with four plans or more on the same devices,
/// the measured time of the plan that is predicted best over the best measured.
struct ChoiceSummary {
  int models = 0;
  double mean_ratio = 0;
  double worst_ratio = 0;
};

struct Validation {
  std::vector<ValidatedRun> rows = {};
  std::vector<UnpricedRun> unpriced = {};
  std::map<std::string, ErrorSummary> summary = {};  ///< by source; "PART mixed" of several kinds
  ChoiceSummary choice = {};
};

/// The summary of some rows.
ErrorSummary summary_of(const std::vector<const ValidatedRun*>& rows);

/// Prices every run that can be priced. Errors are never pooled over sources: large ones would hide
/// the others.
Validation validate_runs(const PublishedRuns& runs, RunPricer& pricer);

}  // namespace hethub
