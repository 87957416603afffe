#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/search/job_form.h"

namespace hethub {

/// What a rank's arena is made of, in bytes.
struct StageBytes {
  std::int64_t held = 0;    ///< parameters and their gradients
  std::int64_t state = 0;   ///< optimizer state, which the replicas share out among them
  std::int64_t lane = 0;    ///< for each micro-batch alive
  std::int64_t shared = 0;  ///< all else: constants, scratch, what lives within one action

  /// Of a stage with `replicas` holders and so many micro-batches alive at once.
  std::int64_t arena(std::int64_t replicas, std::int64_t alive) const {
    return held + state / replicas + alive * lane + shared;
  }
};

/// The bytes of any stage of one model, from the MemoryPlans of five small stages: a first, a last,
/// two between them and one that is all. Exact up to alignment for `held`, `state` and `lane`; what
/// is shared is taken to grow evenly with the layers. Calls may come from several threads at once.
class StageMemory {
 public:
  /// Keeps a reference to the model.
  StageMemory(const ModelConfig& model, const JobForm& form);

  /// Of layers [range), of which the first come with the embedding and the last with the head, on
  /// each rank of a tensor-parallel group of that width.
  StageBytes of(LayerRange range, int sequences, Recompute recompute, int width = 1);

  /// No fewer bytes than the arena of any rank of a stage has, where stages have one range of
  /// layers: what is not exact above is rounded up, and what lies where micro-batches lie between
  /// steps is taken to be as large as the largest bucket.
  std::int64_t arena_limit(const Plan& plan, const RankPosition& at);

 private:
  struct Parts {
    StageBytes first = {};  // what the embedding adds to a layer
    StageBytes last = {};   // what the head adds
    StageBytes both = {};   // what both add where they stand together: tied, they share a matrix
    StageBytes layer = {};
    StageBytes more = {};  // what another layer adds to one
  };

  std::vector<StageBytes> bytes_of_stages(const std::vector<LayerRange>& ranges, int sequences,
                                          Recompute recompute, int width) const;
  Parts measure(int sequences, Recompute recompute, int width) const;

  const ModelConfig& model_;
  JobForm form_;
  std::int64_t largest_tensor_ = 0;                              // bytes
  std::mutex mutex_;                                             // for what follows
  std::map<std::tuple<int, Recompute, int>, Parts> known_ = {};  // by sequences and width
};

}  // namespace hethub
