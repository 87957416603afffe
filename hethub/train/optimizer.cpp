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

bool is_sgd(const OptimizerOptions& options) { return options.name == "sgd"; }

// How far the rate is between its highest, 1, and its lowest, 0, after so many of `length` steps.
double height_of(const OptimizerOptions& options, double steps, double length) {
  const auto done = [&](double from) {
    return std::clamp((steps - from) / std::max(length - from, 1.0), 0.0, 1.0);
  };
  if (options.schedule == "constant") return 1;
  if (options.schedule == "linear") return 1 - done(0);
  if (options.schedule == "wsd") return 1 - done(length - static_cast<double>(options.decay_steps));
  return 0.5 * (1 + std::cos(std::numbers::pi * done(0)));
}

}  // namespace

std::map<std::string, double> facts_of(const OptimizerOptions& options) {
  return {{"sgd", is_sgd(options) ? 1 : 0}, {"learning_rate", options.learning_rate},
          {"beta1", options.beta1},         {"beta2", options.beta2},
          {"epsilon", options.epsilon},     {"weight_decay", options.weight_decay},
          {"momentum", options.momentum}};
}

void check_same_optimizer(const std::map<std::string, double>& facts,
                          const OptimizerOptions& options) {
  const auto found = facts.find("sgd");
  const bool was_sgd = found != facts.end() && found->second != 0;
  const auto other_momentum = [&] {
    const auto momentum = facts.find("momentum");
    return momentum != facts.end() && momentum->second != options.momentum;
  };
  expect(was_sgd == is_sgd(options), "--optimizer", options.name,
         was_sgd ? "sgd, as the run began" : "adamw, as the run began");
  expect(!was_sgd || !other_momentum(), "--momentum", text(options.momentum),
         "that of the run, whose sums of gradients it has scaled");
}

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
  expect(options.name == "adamw" || is_sgd(options), "--optimizer", options.name, "adamw or sgd");
  expect(in(options.momentum, 0, 1) && options.momentum < 1, "--momentum", text(options.momentum),
         "0 or more and below 1");
  const bool known = options.schedule == "constant" || options.schedule == "cosine" ||
                     options.schedule == "linear" || options.schedule == "wsd";
  expect(known, "--lr-schedule", options.schedule, "cosine, constant, linear or wsd");
  expect(options.warmup_steps >= 0 && options.warmup_steps <= options.total_steps, "--warmup-steps",
         text(options.warmup_steps), "0 to the number of steps");
  const std::int64_t most = options.total_steps - options.warmup_steps;
  const std::int64_t least = options.schedule == "wsd" && most > 0 ? 1 : 0;
  expect(options.decay_steps >= least && options.decay_steps <= most, "--decay-steps",
         text(options.decay_steps), "1 to the steps that the warm-up leaves, with wsd");
}

double learning_rate(const OptimizerOptions& options, std::int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  const auto length = static_cast<double>(options.total_steps - options.warmup_steps);
  const double height =
      height_of(options, static_cast<double>(step - options.warmup_steps), length);
  return options.min_learning_rate + (options.learning_rate - options.min_learning_rate) * height;
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
  set(AdamWScalar::kGradientScale, scale);
  if (is_sgd(options)) {
    const double part = 1 - options.momentum;
    set(AdamWScalar::kLearningRate, rate / part);
    set(AdamWScalar::kBeta1, options.momentum);
    set(AdamWScalar::kBeta2, 1);
    set(AdamWScalar::kEpsilon, 1);
    set(AdamWScalar::kWeightDecay, options.weight_decay * part);
    set(AdamWScalar::kBiasCorrection1, 1);
    set(AdamWScalar::kBiasCorrection2, 1);
    return scalars;
  }
  set(AdamWScalar::kLearningRate, rate);
  set(AdamWScalar::kBeta1, options.beta1);
  set(AdamWScalar::kBeta2, options.beta2);
  set(AdamWScalar::kEpsilon, options.epsilon);
  set(AdamWScalar::kWeightDecay, options.weight_decay);
  set(AdamWScalar::kBiasCorrection1, 1 - std::pow(options.beta1, steps));
  set(AdamWScalar::kBiasCorrection2, 1 - std::pow(options.beta2, steps));
  return scalars;
}

}  // namespace hethub
