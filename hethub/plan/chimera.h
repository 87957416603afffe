#pragma once

#include "hethub/plan/schedule.h"

namespace hethub {

/// Chimera: two pipelines in opposite directions over the same workers, each with half of the
/// micro-batches. Worker w holds position w of direction 0 and position stages - 1 - w of direction
/// 1, and so two slices of the model. With forward and backward of equal times the bubble is
/// (p - 2)/(2 m + p - 2) of the step for m micro-batches over p stages.
///
/// Source: Li and Hoefler, "Chimera: Efficiently Training Large-Scale Neural Networks with
/// Bidirectional Pipelines", SC 2021 (units of p micro-batches, concatenated directly). Throws
/// kInvalidArgument unless fits_chimera.
Schedule chimera(int stages, int micro_batches);

/// Whether stages are even in number and micro-batches come in whole runs of them.
constexpr bool fits_chimera(int stages, int micro_batches) {
  return stages >= 2 && stages % 2 == 0 && micro_batches >= 1 && micro_batches % stages == 0;
}

}  // namespace hethub
