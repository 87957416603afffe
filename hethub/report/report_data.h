#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hethub/cluster/cluster.h"
#include "hethub/cost/costs.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/report/run_log.h"
#include "hethub/trace/timeline.h"

namespace hethub {

/// A file of a run.
struct ReportFile {
  std::filesystem::path path = {};
  bool required = false;  ///< the user named it, so it must be there
};

/// Where the parts of a report lie.
struct ReportFiles {
  ReportFile plan = {};
  ReportFile model = {};  ///< empty: the config.json that the plan names
  ReportFile cluster = {};
  ReportFile costs = {};
  ReportFile log = {};
  ReportFile trace = {};            ///< measured
  ReportFile predicted_trace = {};  ///< from `hethub predict --trace`
};

/// The files as a run leaves them in its folder; only the plan is required.
ReportFiles files_of_run(const std::filesystem::path& folder);

/// What fills one rank's arena, in bytes.
struct RankMemory {
  int rank = 0;
  std::string kind = {};
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  ///< both moments
  std::int64_t lanes = 0;      ///< what micro-batches in flight keep for their backward pass
  std::int64_t shared = 0;     ///< what lives within one action
  std::int64_t arena = 0;      ///< all of these and the rest: constants, padding
  std::int64_t fixed = 0;      ///< beside the arena, as measured for the kind; 0: not known
  std::int64_t device = 0;     ///< what the cluster file says the device has; 0: not known

  std::int64_t rest() const { return arena - parameters - gradients - optimizer - lanes - shared; }
};

/// Everything that a report shows. Parts that were not there are empty, and `missing` says so.
struct ReportData {
  Plan plan = {};
  std::string plan_hash = {};
  std::string model_file = {};
  std::optional<ModelConfig> model = {};
  std::optional<RunLog> log = {};
  std::optional<Timeline> measured = {};   ///< one step, beginning at 0
  std::optional<Timeline> predicted = {};  ///< likewise
  std::vector<RankMemory> memory = {};     ///< by rank
  std::set<std::string> emulated_kinds = {};
  std::vector<std::string> missing = {};  ///< a sentence for each part that is left out
};

/// Reads a run's files. Throws kMissingInput if a required one is not there, and what their readers
/// throw if one is not what it should be.
ReportData read_report_data(const ReportFiles& files);

}  // namespace hethub
