#pragma once

#include "hethub/plan/schedule.h"

namespace hethub {

/// 1F1B over virtual stages: worker w holds positions w, w + stages, ... of the model, `chunks` of
/// them, and takes micro-batches through one of them in runs of `stages`. With alike positions the
/// bubble is (p - 1)/(v m + p - 1) of the step, v times less than that of 1F1B, for v times the
/// messages.
///
/// Source: Narayanan et al., "Efficient
/// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021. Throws
/// kInvalidArgument unless stages >= 2, chunks >= 1 and micro_batches is a multiple of stages.
Schedule interleaved(int stages, int chunks, int micro_batches);

}  // namespace hethub
