#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hethub/base/json.h"

namespace hethub {

/// A stage of a plan for a planner case: `tp` devices of the kind work on layers [begin, end).
struct CaseStage {
  std::string kind = {};
  int tp = 1;
  int begin = 0;
  int end = 0;
};

struct CasePipeline {
  int micro_batch_size = 0;
  std::int64_t micro_batches = 0;
  std::vector<CaseStage> stages = {};
};

/// The best plan that was found for a case, and how good any other could be.
struct CaseAnswer {
  std::vector<CasePipeline> pipelines = {};
  double step_seconds = 0;   ///< by the case's own cost model
  double bound_seconds = 0;  ///< no plan takes less
};

/// A planner case: a model, a cluster and a cost model of its own, all from one JSON file.
class PlannerCase {
 public:
  virtual ~PlannerCase() = default;

  /// The best plan. Throws kInvalidPlan if no plan fits the memory.
  virtual CaseAnswer find(double time_limit_s) const = 0;
};

/// Reads a case of either form: independent pipelines with costs by layer ("costs"), or pipelines
/// of one shape under Sailor's simulator formula ("schema": "hethub.planner_case/1"). `counts`
/// replaces the number of devices of each kind; needed where the file does not say how many.
/// Throws kMissingInput, kCorruptData, or kInvalidConfig naming the field.
std::unique_ptr<PlannerCase> read_planner_case(const std::filesystem::path& file,
                                               const std::map<std::string, int>& counts);

/// "A=32,B=96" as counts by kind. Throws kUsage.
std::map<std::string, int> parse_cluster_counts(const std::string& text);

/// {"pipelines": [{"micro_batch_size", "micro_batches", "stages": [{"kind", "tp", "layers"}]}]}.
Json to_json(const std::vector<CasePipeline>& pipelines);

// One maker for each form, of the parsed file.
std::unique_ptr<PlannerCase> layered_case(const Json& file, const std::string& where,
                                          const std::map<std::string, int>& counts);
std::unique_ptr<PlannerCase> sailor_case(const Json& file, const std::string& where,
                                         const std::map<std::string, int>& counts);

}  // namespace hethub
