#pragma once

#include "hethub/plan/schedule.h"

namespace hethub {

/// Whether so many stages can take so many micro-batches in turn: in whole runs of the stages.
constexpr bool can_interleave(int stages, int micro_batches) {
  return stages >= 2 && micro_batches >= 1 && micro_batches % stages == 0;
}

/// 1F1B over virtual stages: worker w holds positions w, w + stages, ... of the model, `chunks` of
/// them, and takes micro-batches through one of them in runs of `stages`. With alike positions the
/// bubble is (p - 1)/(v m + p - 1) of the step, v times less than that of 1F1B, for v times the
/// messages.
///
/// Source: Narayanan et al., "Efficient
/// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021. Throws
/// kInvalidArgument unless chunks >= 1 and can_interleave.
Schedule interleaved(int stages, int chunks, int micro_batches);

}  // namespace hethub
