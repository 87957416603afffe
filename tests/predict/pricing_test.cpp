#include "hethub/predict/pricing.h"

#include <gtest/gtest.h>

#include "hethub/program/differentiate.h"
#include "tests/program/small_program.h"

namespace hethub {
namespace {

CostModel sheet() {
  return {{.kinds = {{.name = "k",
                      .memory_bytes = 1 << 20,
                      .peak_flops_per_s = {{"f32", 1e12}},
                      .memory_bytes_per_s = 1e11}},
           .nodes = {{.name = "n", .devices = {{"k", 1}}}}},
          {}};
}

double total(const LayerCosts& costs) {
  double seconds = costs.before.seconds + costs.after.seconds;
  for (const ProgramCost& layer : costs.layers) {
    seconds += layer.seconds;
  }
  return seconds;
}

TEST(Pricing, the_layers_of_a_model_cost_what_the_model_costs) {
  const CostModel costs = sheet();
  Program model = small_program(4, 0);
  differentiate(model, {.recompute_layers = {1, 2}});
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const LayerCosts sorted = price_by_layer(costs, "k", model, phase, 4);
    EXPECT_NEAR(total(sorted), price(costs, "k", model.phase(phase)).seconds, 1e-15);
    EXPECT_GT(sorted.before.seconds, 0);
    EXPECT_GT(sorted.after.seconds, 0);
  }
}

TEST(Pricing, a_slice_costs_what_its_layers_cost_in_the_whole_model) {
  const CostModel costs = sheet();
  Program model = small_program(5, 0);
  Program slice = small_slice(3);
  differentiate(model);
  differentiate(slice);
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const LayerCosts sorted = price_by_layer(costs, "k", model, phase, 5);
    double layers = 0;
    for (int layer = 1; layer < 4; ++layer) {
      layers += sorted.layers[layer].seconds;
    }
    EXPECT_NEAR(price(costs, "k", slice.phase(phase)).seconds, layers, 1e-15);
  }
}

TEST(Pricing, recompute_adds_to_the_backward_pass_only) {
  const CostModel costs = sheet();
  Program kept = small_program(3, 0);
  Program again = small_program(3, 0);
  differentiate(kept);
  differentiate(again, {.recompute_layers = {0, 1, 2}});
  EXPECT_EQ(price(costs, "k", kept.forward).seconds, price(costs, "k", again.forward).seconds);
  EXPECT_GT(price(costs, "k", again.backward).seconds, price(costs, "k", kept.backward).seconds);
}

TEST(Pricing, says_how_much_of_a_cost_was_measured) {
  Costs measured;
  const Program model = small_program(1, 0);
  measured.kinds["k"].ops = {row_of(model.forward[0].op, 1, 3)};
  const CostModel costs(sheet().cluster(), measured);
  const ProgramCost cost = price(costs, "k", model.forward);
  EXPECT_EQ(cost.seconds_by_source[0], 2) << "the first op and the head are alike";
  EXPECT_GT(cost.seconds_by_source[1], 0) << "the layer's linears are scaled";
  EXPECT_GT(cost.seconds_by_source[2], 0) << "the others are from the data sheet";
  EXPECT_GT(cost.farthest, 1);
}

}  // namespace
}  // namespace hethub
