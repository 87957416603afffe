#include <algorithm>

#include <gtest/gtest.h>

#include "hethub/search/exact.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

constexpr double kOff = 0.1;

// Times of ops, copies and messages that are wrong by up to a tenth either way.
Cluster changed(Cluster cluster, std::mt19937& random) {
  const auto change = [&](double& rate) {
    rate /= std::uniform_real_distribution<>(1 - kOff, 1 + kOff)(random);
  };
  for (Kind& kind : cluster.kinds) {
    change(kind.peak_flops_per_s["f32"]);
    change(kind.memory_bytes_per_s);
    if (kind.host_copy.bytes_per_s > 0) change(kind.host_copy.bytes_per_s);
  }
  for (Link& link : cluster.links) {
    change(link.rate.bytes_per_s);
  }
  return cluster;
}

// A step's time is no more than 1.1 and no less than 0.9 times what the true costs say, of every
// plan; so the best plan by wrong costs takes at most 1.1 / 0.9 of the best, whatever the cluster.
TEST(Robust, costs_off_by_a_tenth_cost_the_chosen_plan_little) {
  std::mt19937 random(17);
  std::vector<double> ratios;
  for (int round = 0; round < 12; ++round) {
    const Cluster cluster = random_cluster(random, 1 + round % 2, 1 + round % 3 % 2);
    const CostModel costs(cluster, {});
    const ModelConfig model = example_model(4 + round % 4);
    const SearchRequest request = request_of(costs, model, 4 + round % 5);
    const SearchResult best = ExactSearch(request).run();
    ASSERT_FALSE(best.best.empty());
    const CostModel wrong(changed(cluster, random), {});
    const SearchResult chosen = ExactSearch(request_of(wrong, model, 4 + round % 5)).run();
    ASSERT_FALSE(chosen.best.empty());
    const double seconds = predict(chosen.best.front().plan, model, costs).step_seconds;
    ratios.push_back(seconds / best.best.front().prediction.step_seconds);
    EXPECT_GE(ratios.back(), 1 - 1e-9) << round;
    EXPECT_LE(ratios.back(), (1 + kOff) / (1 - kOff)) << round;
  }
  std::nth_element(ratios.begin(), ratios.begin() + 6, ratios.end());
  EXPECT_LE(ratios[6], 1.03);
}

}  // namespace
}  // namespace hethub
