#pragma once

#include <map>
#include <string>
#include <vector>

#include "hethub/predict/published_run.h"
#include "hethub/predict/run_memory.h"
#include "hethub/predict/run_pricer.h"

namespace hethub {

/// A figure beside its prediction.
struct ValidatedFigure {
  double measured = 0;
  double predicted = 0;

  double error() const { return predicted / measured - 1; }
};

/// A published run beside its prediction.
struct ValidatedRun {
  PublishedRun run = {};
  RunPrediction predicted = {};
  RunMemory memory = {};  ///< of the fullest rank; zeros where the run states no memory

  double error() const { return predicted.step_s / run.measured_s - 1; }
};

/// How far the predictions of one source are off; of |predicted / measured - 1|.
struct ErrorSummary {
  int rows = 0;
  double mean_abs_error = 0;
  double median_abs_error = 0;
  double max_abs_error = 0;
  double mean_error = 0;        ///< with its sign
  double least_error = 0;       ///< with its sign: how far below the measured the lowest is
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
  /// By source; "PART mixed" of several kinds, "PART fp8" of its runs with 8-bit products.
  std::map<std::string, ErrorSummary> summary = {};

  /// By source, of the memory of its runs' fullest ranks; "PART, table: activations" and "PART,
  /// table: states" are of figures that a source computed.
  std::map<std::string, ErrorSummary> memory = {};
  ChoiceSummary choice = {};
};

/// The summary of some figures, each with a measured value above 0.
ErrorSummary summary_of(const std::vector<ValidatedFigure>& figures);

/// The summary of some rows.
ErrorSummary summary_of(const std::vector<const ValidatedRun*>& rows);

/// Prices every run that can be priced. Errors are never pooled over sources: large ones would hide
/// the others.
Validation validate_runs(const PublishedRuns& runs, RunPricer& pricer);

}  // namespace hethub
