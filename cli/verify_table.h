#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "hethub/train/optimizer.h"

namespace hethub {

/// What a folder says that training on its batches must give (expected.json).
struct ExpectedNumbers {
  OptimizerOptions optimizer = {};
  double loss = 0;
  double gradient_norm = 0;
  std::map<std::string, double> gradient_norms = {};  ///< by tensor, before clipping
  std::vector<double> losses = {};                    ///< of each step, before its update
};

/// Reads expected.json; `reference` names its section, "fp64" or "fp32". Throws kMissingInput,
/// kCorruptData or kInvalidConfig.
ExpectedNumbers read_expected(const std::filesystem::path& file, const std::string& reference);

/// The same numbers as found by a run.
struct FoundNumbers {
  double loss = 0;
  double gradient_norm = 0;
  std::map<std::string, double> gradient_norms = {};
  std::vector<double> losses = {};
};

/// The most that found and expected may differ, relative to the expected.
struct VerifyTolerances {
  double loss = 3e-6;
  double gradient_norm = 2e-5;
  double losses = 2e-5;
};

/// Those of a plan that computes in bf16: of the steps of a value's eight bits, one in a loss, many
/// in the norm of a small gradient.
inline constexpr VerifyTolerances kBf16Tolerances = {
    .loss = 1e-3, .gradient_norm = 4e-2, .losses = 2e-3};

/// One number, compared.
struct VerifyRow {
  std::string name = {};
  double expected = 0;
  double found = 0;
  double error = 0;  ///< relative
  double tolerance = 0;

  bool passed() const { return error <= tolerance; }  ///< false where the error is no number
};

/// Every number that is expected, in the file's order.
std::vector<VerifyRow> compare(const ExpectedNumbers& expected, const FoundNumbers& found,
                               const VerifyTolerances& tolerances);

/// Prints the rows, for a person or as one JSON object; returns how many failed.
int print_rows(const std::vector<VerifyRow>& rows, const std::string& title, bool json);

}  // namespace hethub
