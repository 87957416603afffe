#include "hethub/train/optimizer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

TEST(LearningRate, rises_evenly_then_falls_along_half_a_cosine) {
  const OptimizerOptions options{
      .learning_rate = 1, .min_learning_rate = 0.1, .warmup_steps = 10, .total_steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 60), 0.1 + 0.9 / 2);
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 500), 0.1);
}

TEST(LearningRate, falls_along_a_line_over_the_whole_run_or_its_last_steps) {
  OptimizerOptions options{.learning_rate = 1,
                           .min_learning_rate = 0.2,
                           .schedule = "linear",
                           .warmup_steps = 10,
                           .total_steps = 110};
  EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 60), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.2);
  options.schedule = "wsd";
  options.decay_steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(options, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 90), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 100), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(options, 110), 0.2);
  options.schedule = "constant";
  EXPECT_DOUBLE_EQ(learning_rate(options, 109), 1);
}

// The rule of sgd itself, beside the AdamW op's rule with sgd's scalars, both in fp64.
TEST(Sgd, its_scalars_make_the_adamw_op_the_rule_of_sgd) {
  const OptimizerOptions options{.name = "sgd", .weight_decay = 0.1, .momentum = 0.75};
  double p = 1;
  double m = 0;
  double op_p = 1;
  double op_m = 0;
  double op_v = 0;
  for (std::int64_t update = 1; update <= 20; ++update) {
    const double rate = 0.01 * static_cast<double>(update);
    const double gradient = std::sin(static_cast<double>(update));
    m = options.momentum * m + gradient;
    p -= rate * options.weight_decay * p;
    p -= rate * m;
    const auto scalars = adamw_scalars(options, rate, update, {.tokens = 1, .square_sum = 0});
    const auto of = [&](AdamWScalar which) {
      return double{scalars[static_cast<std::size_t>(which)]};
    };
    op_m = of(AdamWScalar::kBeta1) * op_m + (1 - of(AdamWScalar::kBeta1)) * gradient;
    op_v = of(AdamWScalar::kBeta2) * op_v + (1 - of(AdamWScalar::kBeta2)) * gradient * gradient;
    op_p -= of(AdamWScalar::kLearningRate) * of(AdamWScalar::kWeightDecay) * op_p;
    op_p -= of(AdamWScalar::kLearningRate) * (op_m / of(AdamWScalar::kBiasCorrection1)) /
            (std::sqrt(op_v / of(AdamWScalar::kBiasCorrection2)) + of(AdamWScalar::kEpsilon));
  }
  EXPECT_EQ(op_v, 0);
  EXPECT_NEAR(op_p, p, 1e-6 * std::fabs(p));
}

TEST(Optimizer, a_run_goes_on_with_the_optimizer_that_made_its_moments) {
  const OptimizerOptions adamw;
  const OptimizerOptions sgd{.name = "sgd"};
  EXPECT_NO_THROW(check_same_optimizer(facts_of(adamw), adamw));
  EXPECT_NO_THROW(check_same_optimizer({}, adamw));  // as earlier versions saved it
  EXPECT_NO_THROW(check_same_optimizer(facts_of(sgd), sgd));
  EXPECT_THROW(check_same_optimizer(facts_of(adamw), sgd), Error);
  EXPECT_THROW(check_same_optimizer(facts_of(sgd), adamw), Error);
  EXPECT_THROW(check_same_optimizer(facts_of(sgd), {.name = "sgd", .momentum = 0.5}), Error);
}

TEST(Optimizer, a_warmup_longer_than_the_run_is_refused_by_name) {
  try {
    check({.warmup_steps = 11, .total_steps = 10});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().what, "--warmup-steps");
  }
  EXPECT_THROW(check({.learning_rate = std::nan("")}), Error);
  EXPECT_THROW(check({.beta2 = 1}), Error);
  EXPECT_THROW(check({.epsilon = 0}), Error);
  EXPECT_THROW(check({.name = "adam"}), Error);
  EXPECT_THROW(check({.schedule = "step"}), Error);
  EXPECT_THROW(check({.schedule = "wsd", .total_steps = 10}), Error);  // no --decay-steps
  EXPECT_THROW(check({.schedule = "wsd", .warmup_steps = 5, .decay_steps = 6, .total_steps = 10}),
               Error);
  EXPECT_NO_THROW(check({.warmup_steps = 10, .total_steps = 10}));
}

double scale_of(const OptimizerOptions& options, const GradientSummary& summary) {
  return adamw_scalars(options, 1, 1,
                       summary)[static_cast<std::size_t>(AdamWScalar::kGradientScale)];
}

TEST(AdamWScalars, clip_exactly_to_the_norm_and_only_above_it) {
  const OptimizerOptions options{.clip_norm = 1};
  // Norm of the mean loss's gradient: sqrt(square_sum) / tokens.
  EXPECT_FLOAT_EQ(scale_of(options, {.tokens = 4, .square_sum = 4}), 0.25);
  EXPECT_FLOAT_EQ(scale_of(options, {.tokens = 4, .square_sum = 64}), 0.125);
  EXPECT_FLOAT_EQ(scale_of({.clip_norm = 0}, {.tokens = 4, .square_sum = 64}), 0.25);
}

// One tensor on two stages with a summed gradient of square sum 800 counts once: sqrt(800).
TEST(GradientNorm, is_the_root_of_the_square_sum_with_each_parameter_once) {
  EXPECT_NEAR(gradient_norm({.tokens = 1, .square_sum = 800}), 28.284271, 1e-6);
}

}  // namespace
}  // namespace hethub
