#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/op/op.h"
#include "hethub/predict/published_run.h"
#include "hethub/program/program.h"

namespace hethub {

/// The ops of one rank of a model, by phase and place: what its programs consist of.
struct ModelOps {
  struct Counted {
    Op op = {};
    int times = 1;
  };
  struct Part {
    std::vector<Counted> before = {};  ///< of the embedding
    std::vector<Counted> layer = {};   ///< of one layer
    std::vector<Counted> after = {};   ///< of head and loss
  };
  std::array<Part, kPhases> phases = {};
  double layer_parameters = 0;  ///< elements that one rank holds
  double table_parameters = 0;  ///< of the embedding; of the head too, where it is another
};

/// The dtype that a run computes in.
DType dtype_of(const PublishedRun& run);

/// Builds and keeps the ops of runs: from build_forward and differentiate, in the run's dtype.
class ModelOpsCache {
 public:
  const ModelOps& of(const PublishedRun& run);

 private:
  std::map<std::string, ModelOps> kept_ = {};
};

}  // namespace hethub
