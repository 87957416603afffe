#pragma once

#include "hethub/plan/schedule.h"

namespace hethub {

/// Zero-bubble H1: the backward pass is split, and a stage does the weight gradients, which nobody
/// waits for, where 1F1B would wait. No stage holds more micro-batches than the first of 1F1B. With
/// forward, input and weight gradients of equal times the bubble is (p - 1)/(3 m + p - 1) of the
/// step, a third of 1F1B's, for m >= p micro-batches over p stages.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024. Throws kInvalidArgument if
/// `stages` or `micro_batches` < 1.
Schedule zero_bubble(int stages, int micro_batches);

}  // namespace hethub
