#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hethub/base/json.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// A training run that somebody published, or that a user measured.
///
/// All pipelines are alike: `stage_kinds` has for each stage the kinds of its devices, of which the
/// slowest decides.
struct PublishedRun {
  std::string id = {};
  std::string part = {};      ///< the source; errors are summed up for each
  std::string software = {};  ///< a name in Sheets::software
  std::string family = {};    ///< runs of one model, software and layout: kept or held out together
  std::string alike = {};     ///< runs that differ in their plan alone: of these one may choose
  ModelConfig model = {};
  bool gated = true;  ///< false: the block's MLP has one matrix into it
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;
  int micro_batch_size = 1;
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int data_parallel = 1;
  int context_parallel = 1;
  int virtual_stages = 1;
  int zero_stage = 0;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  std::string dtype = {};
  std::vector<std::vector<std::string>> stage_kinds = {};
  std::vector<LayerRange> positions = {};  ///< the layers at each, as a Plan counts them
  int devices_per_node = 1;
  double node_bytes_per_s = 0;  ///< network ports of a node together; 0: the data sheet's
  std::string fabric = {};      ///< a name in Sheets::fabrics; "": none that is known
  double link_bytes_per_s = 0;  ///< of a device in its node; 0: the data sheet's
  double measured_s = 0;        ///< of a step
  double measured_bytes = 0;    ///< most memory of a device; 0: not stated
  /// A published table's bytes of a rank; 0: not stated.
  double table_states = 0;       ///< parameters, gradients and optimizer
  double table_activations = 0;  ///< layers' activations on the first stage
  bool mixed = false;            ///< of several kinds
  bool impaired = false;         ///< its source says that the machine was at fault: never fitted to

  int world_size() const {
    return tensor_parallel * pipeline_parallel * data_parallel * context_parallel;
  }
  /// Ranks that hold the same parameters.
  int replicas() const { return data_parallel * context_parallel; }

  int micro_batches() const {
    return static_cast<int>(global_batch / (std::int64_t{micro_batch_size} * data_parallel));
  }
};

/// A row that cannot be priced, and why.
struct UnpricedRun {
  std::string id = {};
  std::string part = {};
  std::string why = {};
};

struct PublishedRuns {
  std::vector<PublishedRun> runs = {};
  std::vector<UnpricedRun> unpriced = {};
};

/// Reads published runs: a list of rows, or an object with `rows` of one node's runs. Rows that do
/// not say enough to be priced, or that contradict themselves, go to `unpriced`. Throws
/// kInvalidConfig for what is no such file.
PublishedRuns parse_published_runs(const Json& file, const std::string& name);

}  // namespace hethub
