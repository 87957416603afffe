#pragma once

#include "hethub/plan/schedule.h"

namespace hethub {

/// PipeDream: 1F1B without a flush; each worker updates its weights after every backward pass, and
/// each micro-batch's backward pass uses the weights of its forward pass. Stage s of p keeps p - s
/// versions. An action's weight_version is how many updates the weights it uses have had; an
/// update's is that of what it makes. Source: Narayanan et al., "PipeDream: Generalized Pipeline
/// Parallelism for DNN Training", SOSP 2019. Throws kInvalidArgument if `stages` or `micro_batches`
/// < 1.
Schedule pipedream(int stages, int micro_batches);

/// PipeDream-2BW: the same, with an update after every `stages` micro-batches, whose gradients are
/// of the weights one update before: W(t + 1) = W(t) - ν ∇f(W(t - 1)). Two versions on every stage.
/// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021. Throws
/// kInvalidArgument unless `stages` >= 1 and `micro_batches` is a multiple of it, at least one.
Schedule pipedream_2bw(int stages, int micro_batches);

/// The most versions of its weights that a worker keeps at once: each from the update that makes it
/// to the last action that uses it, or to the next update. 1 in synchronous schedules.
int most_weight_versions(const Schedule& schedule, int worker);

}  // namespace hethub
