#include "hethub/search/mcmc.h"

#include <gtest/gtest.h>

#include "hethub/plan/validate.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

TEST(Mcmc, finds_nothing_that_is_invalid_too_big_or_slower_than_where_it_began) {
  std::mt19937 random(9);
  int better = 0;
  for (const int devices : {2, 9, 12}) {
    const CostModel costs(random_cluster(random, devices, devices / 2), {});
    SearchRequest request = request_of(costs, example_model(6), 3 * devices + 1);
    request.walk_steps = 300;
    request.time_limit_s = 8;
    const SearchResult exact = make_strategy("exact")->find(request);
    const SearchResult walked = make_strategy("mcmc")->find(request);
    ASSERT_FALSE(walked.best.empty());
    const Candidate& best = walked.best.front();
    EXPECT_TRUE(validate(best.plan, request.model).empty());
    EXPECT_GE(best.prediction.fullest().free_bytes(), 0);
    EXPECT_GE(best.prediction.step_seconds, walked.bound_seconds * (1 - 1e-9));
    const double began = exact.best.front().prediction.step_seconds;
    better += best.prediction.step_seconds < 0.9999 * began ? 1 : 0;
  }
  EXPECT_GT(better, 0) << "with more devices there is something left to find";
}

TEST(Mcmc, one_seed_has_one_answer) {
  const CostModel costs(example_cluster(2, 1), {});
  SearchRequest request = request_of(costs, example_model(6), 29);
  request.walk_steps = 200;
  request.seed = 5;
  const SearchResult first = make_strategy("mcmc")->find(request);
  const SearchResult second = make_strategy("mcmc")->find(request);
  ASSERT_FALSE(first.best.empty());
  EXPECT_EQ(first.best.front().plan, second.best.front().plan);
  EXPECT_EQ(first.simulated, second.simulated);
}

TEST(Mcmc, pins_hold) {
  const CostModel costs(example_cluster(2, 2), {});
  SearchRequest request = request_of(costs, example_model(6), 8);
  add_pin(request.pins, "stage0.kind=b");
  add_pin(request.pins, "stage0.layers=2");
  add_pin(request.pins, "schedule=gpipe");
  add_pin(request.pins, "recompute=none");
  request.walk_steps = 200;
  const Plan plan = make_strategy("mcmc")->find(request).best.front().plan;
  EXPECT_EQ(plan.schedule, "gpipe");
  for (const Pipeline& pipeline : plan.pipelines) {
    EXPECT_EQ(pipeline.stages[0].kind, "b");
    EXPECT_EQ(pipeline.stages[0].layers.front().size(), 2);
    for (const Stage& stage : pipeline.stages) {
      EXPECT_TRUE(stage.recompute.empty());
    }
  }
}

}  // namespace
}  // namespace hethub
