#pragma once

#include <string>
#include <vector>

#include "hethub/cluster/sheets.h"
#include "hethub/predict/published_run.h"

namespace hethub {

/// A constant of an efficiency class, fitted.
struct FittedConstant {
  std::string name = {};  ///< "ampere.products"
  double before = 0;
  double after = 0;
  /// Within these the objective is at most a tenth above its least: how certain the value is.
  double low = 0;
  double high = 0;
};

struct Calibration {
  Sheets sheets = {};
  double error_before = 0;  ///< the mean over sources of their mean |error|
  double error_after = 0;
  int rows = 0;
  std::vector<FittedConstant> constants = {};
};

struct CalibrationOptions {
  /// Begin with the constants of the class "any" for all: what was fitted before must not be known
  /// where the fit is judged by rows that it was fitted to.
  bool afresh = false;
  int rounds = 12;  ///< over all constants, with ever smaller steps
};

/// Fits the constants of the efficiency classes that the runs use, one after another, so that the
/// mean over the sources of their mean |error| is least. Nothing is fitted for a source or a row.
Calibration calibrate(const Sheets& sheets, const PublishedRuns& runs,
                      const CalibrationOptions& options = {});

}  // namespace hethub
