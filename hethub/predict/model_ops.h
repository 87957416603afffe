#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/model/shards.h"
#include "hethub/op/op.h"
#include "hethub/predict/pricing.h"
#include "hethub/predict/published_run.h"
#include "hethub/program/program.h"

namespace hethub {

/// The ops of one rank of a model, by phase and layer: what its programs consist of.
struct ModelOps {
  struct Counted {
    Op op = {};
    int times = 1;
  };
  using Counts = std::vector<Counted>;

  std::array<LayerParts<Counts>, kPhases> phases = {};  ///< with one layer: all are alike
  HeldElements held = {};
  double sent_bytes = 0;  ///< of a micro-batch, from a stage to the next
};

/// The dtype that a run computes in; of one with 8-bit products that of all its other ops.
DType dtype_of(const PublishedRun& run);

/// Builds and keeps the ops of runs: from build_forward and differentiate, in the run's dtype.
class ModelOpsCache {
 public:
  const ModelOps& of(const PublishedRun& run);

 private:
  std::map<std::string, ModelOps> kept_ = {};
};

}  // namespace hethub
