#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "hethub/op/op.h"

namespace hethub {

/// How parameters are updated, after clipping by global norm.
///
/// "adamw" is AdamW with decoupled weight decay. "sgd" is m = momentum · m + g, p -= rate · m, with
/// the same decay. It runs as an AdamW op whose second moment stays 0 (see adamw_scalars), so it
/// takes the same memory.
struct OptimizerOptions {
  std::string name = "adamw";  ///< or "sgd"
  double learning_rate = 3e-4;
  double min_learning_rate = 0;  ///< what a falling schedule ends at
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.9;            ///< of sgd
  double clip_norm = 1.0;           ///< 0: no clipping
  std::string schedule = "cosine";  ///< or "constant", "linear", "wsd", all after warm-up
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  ///< of wsd: the last ones, over which it falls
  std::int64_t total_steps = 0;  ///< where a falling schedule ends
};

/// What a checkpoint keeps of them, and a resume has to find again: see check_same_optimizer.
std::map<std::string, double> facts_of(const OptimizerOptions& options);

/// Throws kInvalidConfig if a run that kept these facts had another optimizer, whose moments mean
/// something else. Rates and decays may change.
void check_same_optimizer(const std::map<std::string, double>& facts,
                          const OptimizerOptions& options);

/// Throws kInvalidConfig, naming the option, for values that cannot be: a warm-up longer than the
/// run is refused, not shortened.
void check(const OptimizerOptions& options);

/// The rate of step `step` (from 0): rises evenly over the warm-up, reaching the full rate at its
/// last step. Then "cosine" falls along half a cosine to the minimum at total_steps, "linear" along
/// a line, "wsd" (warm-up, stable, decay) along a line over the last decay_steps steps only, and
/// "constant" not at all.
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
///
/// For sgd with momentum μ they make the op m' = μ·m' + (1-μ)·g and p -= rate/(1-μ) · m', where m'
/// is (1-μ) times the m of the rule above: β1 = μ, β2 = 1, which leaves v at 0, and ε = 1.
std::array<float, kAdamWScalars> adamw_scalars(const OptimizerOptions& options, double rate,
                                               std::int64_t update, const GradientSummary& summary);

}  // namespace hethub
