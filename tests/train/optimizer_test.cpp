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
