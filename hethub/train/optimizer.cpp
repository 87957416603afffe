#include "hethub/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hethub/base/error.h"

namespace hethub {
namespace {

void expect(bool condition, const char* what, const std::string& found, const char* expected) {
  if (condition) return;
  throw Error(ErrorCode::kInvalidConfig,
              {.what = what, .found = found, .expected = expected, .fix = "correct the option"});
}

}  // namespace

void check(const OptimizerOptions& options) {
  const auto in = [](double value, double low, double high) {
    return value >= low && value <= high;  // false for NaN
  };
  expect(in(options.learning_rate, 0, 1e6), "--lr", text(options.learning_rate), "0 or more");
  expect(in(options.min_learning_rate, 0, options.learning_rate), "--min-lr",
         text(options.min_learning_rate), "0 to --lr");
  expect(in(options.beta1, 0, 1) && options.beta1 < 1, "--beta1", text(options.beta1),
         "0 or more and below 1");
  expect(in(options.beta2, 0, 1) && options.beta2 < 1, "--beta2", text(options.beta2),
         "0 or more and below 1");
  expect(options.epsilon > 0, "--epsilon", text(options.epsilon), "above 0");
  expect(in(options.weight_decay, 0, 1e6), "--weight-decay", text(options.weight_decay),
         "0 or more");
  expect(in(options.clip_norm, 0, 1e30), "--grad-clip", text(options.clip_norm), "0 (off) or more");
  expect(options.schedule == "cosine" || options.schedule == "constant", "--lr-schedule",
         options.schedule, "cosine or constant");
  expect(options.warmup_steps >= 0 && options.warmup_steps <= options.total_steps, "--warmup-steps",
         text(options.warmup_steps), "0 to the number of steps");
}

double learning_rate(const OptimizerOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  if (options.schedule == "constant") return options.learning_rate;
  const auto length = static_cast<double>(options.total_steps - options.warmup_steps);
  const double done =
      std::min(1.0, static_cast<double>(step - options.warmup_steps) / std::max(length, 1.0));
  const double falling = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return options.min_learning_rate + (options.learning_rate - options.min_learning_rate) * falling;
}

double gradient_norm(const GradientSummary& summary) {
  return std::sqrt(summary.square_sum) / summary.tokens;
}

std::array<float, kAdamWScalars> adamw_scalars(const OptimizerOptions& options, double rate,
                                               std::int64_t update,
                                               const GradientSummary& summary) {
  const double norm = gradient_norm(summary);
  const bool clips = options.clip_norm > 0 && norm > options.clip_norm;
  const double scale = (clips ? options.clip_norm / norm : 1.0) / summary.tokens;
  const auto steps = static_cast<double>(update);
  std::array<float, kAdamWScalars> scalars = {};
  const auto set = [&](AdamWScalar which, double value) {
    scalars.at(static_cast<std::size_t>(which)) = static_cast<float>(value);
  };
  set(AdamWScalar::kLearningRate, rate);
  set(AdamWScalar::kBeta1, options.beta1);
  set(AdamWScalar::kBeta2, options.beta2);
  set(AdamWScalar::kEpsilon, options.epsilon);
  set(AdamWScalar::kWeightDecay, options.weight_decay);
  set(AdamWScalar::kGradientScale, scale);
  set(AdamWScalar::kBiasCorrection1, 1 - std::pow(options.beta1, steps));
  set(AdamWScalar::kBiasCorrection2, 1 - std::pow(options.beta2, steps));
  return scalars;
}

}  // namespace hethub
