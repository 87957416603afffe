// Holds the reference's gradient formulas to finite differences of its forward formulas, so that
// what the backends are compared with is right by something outside itself.

#include "reference.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "cases.h"
#include "hethub/base/text.h"
#include "operands.h"

namespace hethub::conformance {
namespace {

// One gradient a gradient op claims: of Σ dy ∘ (output 0 of `forward`), by input `by`.
struct Claim {
  OpBody forward = {};
  std::vector<Values> inputs = {};
  Values dy = {};
  std::size_t by = 0;
  Values gradient = {};
};

// What an op that adds to an input has added.
Values added(const Values& after, const Values& before) {
  Values difference = after;
  for (std::size_t i = 0; i < before.size(); ++i) {
    difference[i] -= before[i];
  }
  return difference;
}

using Outputs = std::vector<Values>;

// One overload per gradient op: what its outputs claim. Ops that are no gradients claim nothing.

std::vector<Claim> claims(const LinearGradInput& op, const Outputs& in, const Outputs& out) {
  const Values x(static_cast<std::size_t>(op.rows * op.in), 0.5);
  return {{Linear{op.rows, op.in, op.out}, {x, in[1]}, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const LinearGradWeight& op, const Outputs& in, const Outputs& out) {
  return {{Linear{op.rows, op.in, op.out}, {in[1], in[2]}, in[0], 1, added(out[0], in[2])}};
}

std::vector<Claim> claims(const BiasGrad& op, const Outputs& in, const Outputs& out) {
  const Values x(static_cast<std::size_t>(op.rows), 0.5);
  const Values w(static_cast<std::size_t>(op.width), 0.25);
  return {{Linear{op.rows, 1, op.width, true}, {x, w, in[1]}, in[0], 2, added(out[0], in[1])}};
}

std::vector<Claim> claims(const EmbeddingGrad& op, const Outputs& in, const Outputs& out) {
  return {{Embedding{op.rows, op.vocab, op.width, op.first, op.of},
           {in[0], in[2]},
           in[1],
           1,
           added(out[0], in[2])}};
}

std::vector<Claim> claims(const RmsNormGradInput& op, const Outputs& in, const Outputs& out) {
  return {{RmsNorm{op.rows, op.width, 1e-5}, {in[1], in[2]}, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const RmsNormGradGain& op, const Outputs& in, const Outputs& out) {
  const Values gain(static_cast<std::size_t>(op.width), 1.0);
  return {{RmsNorm{op.rows, op.width, 1e-5}, {in[1], gain}, in[0], 1, added(out[0], in[3])}};
}

std::vector<Claim> claims(const LayerNormGradInput& op, const Outputs& in, const Outputs& out) {
  const Values bias(static_cast<std::size_t>(op.width), 0.5);
  return {{LayerNorm{op.rows, op.width, 1e-5}, {in[1], in[2], bias}, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const LayerNormGradGain& op, const Outputs& in, const Outputs& out) {
  const Values ones(static_cast<std::size_t>(op.width), 1.0);
  return {
      {LayerNorm{op.rows, op.width, 1e-5}, {in[1], ones, ones}, in[0], 1, added(out[0], in[4])}};
}

std::vector<Claim> claims(const GeluGrad& op, const Outputs& in, const Outputs& out) {
  return {{Gelu{op.rows, op.width}, {in[1]}, in[0], 0, out[0]}};
}

// Without balance, whose sum is no op's: it has a test of its own.
std::vector<Claim> claims(const RouterGrad& op, const Outputs& in, const Outputs& out) {
  if (op.forward.balance != 0) return {};
  return {{op.forward, {in[1]}, in[0], 0, out[0]}};
}

// The rows that a choice has taken get its gradient back, and the other way round.
std::vector<Claim> claims(const SumRows& op, const Outputs& in, const Outputs& out) {
  if (op.weighted) return {};
  const TakeRows forward{op.rows, op.width, op.top, op.slots};
  const Values x(static_cast<std::size_t>(op.rows * op.width), 0.5);
  return {{forward, {x, in[1]}, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const TakeRows& op, const Outputs& in, const Outputs& out) {
  const SumRows forward{op.rows, op.width, op.top, op.slots, op.weighted};
  const Values x(static_cast<std::size_t>(op.slots * op.width), 0.5);
  std::vector<Values> inputs = {x, in[1]};
  if (op.weighted) inputs.push_back(in[2]);
  return {{forward, inputs, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const SumRowsGradWeight& op, const Outputs& in, const Outputs& out) {
  const SumRows forward{op.rows, op.width, op.top, op.slots, true};
  const Values weights(static_cast<std::size_t>(op.rows * op.top), 0.5);
  return {{forward, {in[1], in[2], weights}, in[0], 2, out[0]}};
}

std::vector<Claim> claims(const ExpertLinearGradInput& op, const Outputs& in, const Outputs& out) {
  const ExpertLinear forward{op.slots, op.in, op.out, op.experts, op.load};
  const Values x(static_cast<std::size_t>(op.slots * op.in), 0.5);
  return {{forward, {x, in[1], in[2]}, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const ExpertLinearGradWeight& op, const Outputs& in, const Outputs& out) {
  const ExpertLinear forward{op.slots, op.in, op.out, op.experts, op.load};
  return {{forward, {in[1], in[3], in[2]}, in[0], 1, added(out[0], in[3])}};
}

// Turning back is the gradient of turning.
std::vector<Claim> claims(const Rope& op, const Outputs& in, const Outputs& out) {
  Rope forward = op;
  forward.inverse = !op.inverse;
  return {{forward, {in[0], in[1], in[2]}, in[0], 0, out[0]}};
}

std::vector<Claim> claims(const AttentionGrad& op, const Outputs& in, const Outputs& out) {
  std::vector<Values> forward = {in[1], in[2], in[3]};
  if (op.forward.documents) forward.push_back(in[6]);
  std::vector<Claim> all;
  for (std::size_t by = 0; by < 3; ++by) {
    all.push_back({op.forward, forward, in[0], by, out[by]});
  }
  return all;
}

std::vector<Claim> claims(const SiluMulGrad& op, const Outputs& in, const Outputs& out) {
  const SiluMul forward{op.rows, op.width};
  return {{forward, {in[1], in[2]}, in[0], 0, out[0]}, {forward, {in[1], in[2]}, in[0], 1, out[1]}};
}

// A part of the columns, and all others as one column more: their LogSumExp. A row of the gradient
// adds up to 0.
Claim claim_of_part(const CrossEntropyGrad& op, const Outputs& in, const Outputs& out) {
  Values logits;
  Values labels;
  Values gradient;
  for (std::int64_t row = 0; row < op.rows; ++row) {
    double own = 0;
    double sum = 0;
    for (std::int64_t column = 0; column < op.vocab; ++column) {
      const auto at = static_cast<std::size_t>(row * op.vocab + column);
      logits.push_back(in[0][at]);
      gradient.push_back(out[0][at]);
      own += std::exp(in[0][at]);
      sum += out[0][at];
    }
    logits.push_back(std::log(std::exp(in[2][static_cast<std::size_t>(row)]) - own));
    gradient.push_back(-sum);
    const double label = in[1][static_cast<std::size_t>(row)];
    const double column = label - static_cast<double>(op.first);
    const bool here = column >= 0 && column < static_cast<double>(op.vocab);
    labels.push_back(label == -100 ? label : here ? column : static_cast<double>(op.vocab));
  }
  const Values ones(static_cast<std::size_t>(op.rows), 1.0);
  return {CrossEntropy{op.rows, op.vocab + 1}, {logits, labels}, ones, 0, gradient};
}

std::vector<Claim> claims(const CrossEntropyGrad& op, const Outputs& in, const Outputs& out) {
  if (op.z != 0) return {};  // its sum is no op's: it has a test of its own
  if (op.of > 0) return {claim_of_part(op, in, out)};
  const Values ones(static_cast<std::size_t>(op.rows), 1.0);
  return {{CrossEntropy{op.rows, op.vocab}, {in[0], in[1]}, ones, 0, out[0]}};
}

template <typename T>
std::vector<Claim> claims(const T& /*op*/, const Outputs& /*in*/, const Outputs& /*out*/) {
  return {};
}

double weighted_sum(const Claim& claim) {
  const Values y = reference({"forward", DType::kF32, claim.forward}, claim.inputs)[0];
  return std::inner_product(y.begin(), y.end(), claim.dy.begin(), 0.0);
}

// Central differences: an error of h² / 6 · f''', and of 1e-16 / h by rounding.
double difference(Claim& claim, std::size_t element) {
  constexpr double kStep = 1e-5;
  double& x = claim.inputs[claim.by][element];
  const double held = x;
  x = held + kStep;
  const double above = weighted_sum(claim);
  x = held - kStep;
  const double below = weighted_sum(claim);
  x = held;
  return (above - below) / (2 * kStep);
}

TEST(Reference, its_gradients_are_the_slopes_of_its_forward_formulas) {
  std::size_t checked = 0;
  for (const Op& op : small_cases()) {
    SCOPED_TRACE(title_of(op));
    const std::vector<Values> inputs = make_inputs(op, 7);
    const std::vector<Values> outputs = reference(op, inputs);
    std::vector<Claim> all =
        std::visit([&](const auto& body) { return claims(body, inputs, outputs); }, op.body);
    for (Claim& claim : all) {
      for (std::size_t i = 0; i < claim.gradient.size(); ++i) {
        const double slope = difference(claim, i);
        ASSERT_NEAR(claim.gradient[i], slope, 2e-6 * (1 + std::fabs(slope)))
            << "by input " << claim.by << ", element " << i;
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 500U);
}

// The slopes of `sum` by each of `inputs`, by central differences.
template <typename Sum>
Values slopes_of(const Sum& sum, Values inputs) {
  constexpr double kStep = 1e-5;
  Values slopes;
  for (double& x : inputs) {
    const double held = x;
    x = held + kStep;
    const double above = sum(inputs);
    x = held - kStep;
    slopes.push_back((above - sum(inputs)) / (2 * kStep));
    x = held;
  }
  return slopes;
}

TEST(Reference, the_z_loss_is_the_square_of_each_counted_rows_log_sum) {
  const CrossEntropyGrad op{.rows = 3, .vocab = 5, .z = 0.3};
  const std::vector<Values> inputs = make_inputs({"loss", DType::kF32, op}, 11);
  const Values found = reference({"loss", DType::kF32, op}, inputs)[0];
  const Values expected = slopes_of(
      [&](const Values& logits) {
        const CrossEntropy forward{op.rows, op.vocab};
        const auto out = reference({"loss", DType::kF32, forward}, {logits, inputs[1]});
        double sum = 0;
        for (std::size_t row = 0; row < 3; ++row) {
          const bool counted = inputs[1][row] != -100;
          sum += out[0][row] + (counted ? op.z * out[1][row] * out[1][row] : 0);
        }
        return sum;
      },
      inputs[0]);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6);
  }
}

// The definition: for each sequence, experts · Σ share · mean probability, by its length.
TEST(Reference, the_balance_is_the_sum_of_shares_times_probabilities) {
  const Router router{.rows = 6, .experts = 4, .top = 2, .sequence = 3, .balance = 0.7};
  std::vector<Values> inputs = make_inputs({"router", DType::kF32, RouterGrad{router}}, 13);
  inputs[0].assign(inputs[0].size(), 0.0);  // of the weights nothing
  const Values found = reference({"router", DType::kF32, RouterGrad{router}}, inputs)[0];
  const Values expected = slopes_of(
      [&](const Values& logits) {
        double sum = 0;
        for (std::size_t row = 0; row < 6; ++row) {
          double whole = 0;
          double mixed = 0;
          for (std::size_t expert = 0; expert < 4; ++expert) {
            double share = 0;
            for (std::size_t choice = row / 3 * 6; choice < row / 3 * 6 + 6; ++choice) {
              share += inputs[3][choice] == static_cast<double>(expert) ? 1.0 / 3 : 0;
            }
            whole += std::exp(logits[row * 4 + expert]);
            mixed += std::exp(logits[row * 4 + expert]) * share;
          }
          sum += 0.7 * 4 * mixed / whole;  // 3 rows in a sequence, a third of each probability
        }
        return sum;
      },
      inputs[1]);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6);
  }
}

// A rotation keeps lengths and turns position 0 by nothing: a formula outside the code.
TEST(Reference, rope_turns_pairs_by_their_angle) {
  const double angle = 0.3;
  const Op op{"rope", DType::kF32, Rope{1, 1, 2, 1, false}};
  const Values y = reference(op, {{2, 0}, {0}, {std::cos(angle), std::sin(angle)}})[0];
  EXPECT_NEAR(y[0], 2 * std::cos(angle), 1e-15);
  EXPECT_NEAR(y[1], 2 * std::sin(angle), 1e-15);
}

// With one visible position the weights are 1, whatever the scores.
TEST(Reference, a_window_of_one_copies_the_values) {
  const Attention attention{
      .batch = 1, .seq = 4, .heads = 2, .kv_heads = 2, .head_dim = 3, .window = 1};
  const Op op{"attention", DType::kF32, attention};
  const std::vector<Values> inputs = make_inputs(op, 3);
  const Values y = reference(op, inputs)[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], inputs[2][i], 1e-14);
  }
}

// Step 1 of AdamW from zero moments moves each parameter by the rate, whatever its gradient.
TEST(Reference, the_first_adamw_step_is_the_rate) {
  const Op op{"adamw", DType::kF32, AdamW{2, false}};
  const std::vector<Values> outputs =
      reference(op, {{1, 1}, {0, 0}, {0, 0}, {0.3, -40}, {0.01, 0.9, 0.95, 0, 0, 1, 0.1, 0.05}});
  EXPECT_NEAR(outputs[0][0], 0.99, 1e-12);
  EXPECT_NEAR(outputs[0][1], 1.01, 1e-12);
}

}  // namespace
}  // namespace hethub::conformance
