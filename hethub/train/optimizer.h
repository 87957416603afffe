#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "hethub/op/op.h"

namespace hethub {

/// How parameters are updated. AdamW with decoupled weight decay, after clipping by global norm.
struct OptimizerOptions {
  double learning_rate = 3e-4;
  double min_learning_rate = 0;  ///< what the cosine ends at
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;           ///< 0: no clipping
  std::string schedule = "cosine";  ///< or "constant", both after warm-up
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< the cosine's end
};

/// Throws kInvalidConfig, naming the option, for values that cannot be: a warm-up longer than the
/// run is refused, not shortened.
void check(const OptimizerOptions& options);

/// The rate of step `step` (from 0): rises evenly over the warm-up, reaching the full rate at its
/// last step, then falls along half a cosine to the minimum at total_steps.
double learning_rate(const OptimizerOptions& options, std::int64_t step);

/// What the whole world knows of a step's gradient.
struct GradientSummary {
  double tokens = 0;      ///< counted labels
  double square_sum = 0;  ///< of the gradient of the SUM of the losses, each parameter once
};

/// Norm of the gradient of the mean loss.
double gradient_norm(const GradientSummary& summary);

/// The scalars of this step's AdamW ops; `update` counts updates from 1. The gradient is scaled by
/// 1/tokens and then by clip_norm/norm where the norm is larger.
std::array<float, kAdamWScalars> adamw_scalars(const OptimizerOptions& options, double rate,
                                               std::int64_t update, const GradientSummary& summary);

}  // namespace hethub
