#pragma once

#include "hethub/cluster/sheets.h"
#include "hethub/predict/published_run.h"

namespace hethub {

/// Bytes of one rank of a stage, by what they are for.
struct RunMemory {
  int stage = 0;
  double states = 0;       ///< weights, gradients and the rank's share of the optimizer's numbers
  double activations = 0;  ///< kept from forward to backward, all micro-batches under way
  double working = 0;      ///< the most that one action needs beside those
  double fixed = 0;        ///< the process, its libraries and their buffers

  double total() const { return states + activations + working + fixed; }
};

/// Bytes that a micro-batch keeps from its forward to its backward pass on one rank.
struct KeptBytes {
  double layer = 0;      ///< by each layer
  double embedding = 0;  ///< by the embedding
  double head = 0;       ///< by what follows the last layer
};

/// What the backward program of the run's model reads of its forward program, in the run's dtype;
/// beside it what the framework keeps and ours does not: masks of dropout (a byte an element) and
/// attention's scores, where they are stored. Sequence parallel shares out what tensor parallel
/// leaves whole. `selective` recompute drops the scores and what comes of them alone.
/// Source of the comparison: Korthikanti et al., "Reducing activation recomputation in large
/// transformer models", MLSys 2023, equations 1 to 6, which it equals to within the statistics that
/// norms keep.
KeptBytes kept_bytes(const PublishedRun& run, const Software& software);

/// Memory of a rank of a stage, its micro-batches under way as its schedule has them.
RunMemory stage_memory(const PublishedRun& run, const Software& software, int stage);

/// The stage that needs most.
RunMemory peak_memory(const PublishedRun& run, const Software& software);

/// Bytes of weights, gradients and optimizer state of a rank, the mean over all ranks.
double mean_state_bytes(const PublishedRun& run, const Software& software);

/// Kept bytes of layers alone on a rank of the first stage: what published tables of activations
/// count.
double first_stage_layer_bytes(const PublishedRun& run, const Software& software);

}  // namespace hethub
