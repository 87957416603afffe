#include <random>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/validate.h"
#include "hethub/search/reasons.h"
#include "hethub/search/schedule_variants.h"
#include "hethub/search/stage_pricer.h"
#include "hethub/search/strategy.h"
#include "tests/predict/example_plans.h"
#include "tests/search/brute_force.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

TEST(ExactSearch, finds_what_simulating_every_plan_finds) {
  std::mt19937 random(11);
  int plans = 0;
  for (int round = 0; round < 8; ++round) {
    const CostModel costs(random_cluster(random, 1, 1), {});
    const ModelConfig model = example_model(2 + round % 3, round % 2 == 1);
    const SearchRequest request = request_of(costs, model, 3 + round % 5);
    const double expected = brute_force(request, false, plans);
    const SearchResult result = make_strategy("exact")->find(request);
    ASSERT_FALSE(result.best.empty());
    EXPECT_TRUE(result.complete);
    EXPECT_NEAR(result.best.front().prediction.step_seconds, expected, 1e-6 * expected);
  }
  EXPECT_GT(plans, 200);
}

TEST(ExactSearch, finds_it_with_three_devices_too) {
  std::mt19937 random(5);
  int plans = 0;
  for (int round = 0; round < 2; ++round) {
    const CostModel costs(random_cluster(random, 2, 1), {});
    SearchRequest request = request_of(costs, example_model(3), 3);
    request.pins.tensor_parallel = 1;
    const double expected = brute_force(request, false, plans);
    const SearchResult result = make_strategy("exact")->find(request);
    ASSERT_FALSE(result.best.empty());
    // The search takes replicas in one order; where there are three, who comes after whom in their
    // rings can matter a little.
    EXPECT_NEAR(result.best.front().prediction.step_seconds, expected, 5e-4 * expected);
  }
  EXPECT_GT(plans, 250);
}

TEST(ExactSearch, finds_it_where_memory_is_tight_and_every_plan_it_gives_fits) {
  std::mt19937 random(3);
  int plans = 0;
  int recomputed = 0;
  for (int round = 0; round < 3; ++round) {
    Cluster cluster = random_cluster(random, 1, 1);
    for (Kind& kind : cluster.kinds) {
      kind.memory_bytes = (49 + static_cast<std::int64_t>(random() % 18)) * 104858;  // 4.9-6.6 MiB
    }
    const CostModel costs(cluster, {});
    const SearchRequest request = request_of(costs, example_model(3), 4);
    const double expected = brute_force(request, true, plans);
    const SearchResult result = make_strategy("exact")->find(request);
    if (result.best.empty()) {
      EXPECT_TRUE(std::isinf(expected));
      ASSERT_TRUE(result.nearest.has_value());
      EXPECT_GT(result.nearest->bytes_short, 0);
      continue;
    }
    EXPECT_NEAR(result.best.front().prediction.step_seconds, expected, 1e-6 * expected);
    for (const Candidate& candidate : result.best) {
      EXPECT_GE(candidate.prediction.fullest().free_bytes(), 0);
      for (const Pipeline& pipeline : candidate.plan.pipelines) {
        for (const Stage& stage : pipeline.stages) {
          recomputed += stage.recompute.empty() ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(recomputed, 0) << "some case must need it";
}

TEST(ExactSearch, gives_valid_plans_fastest_first_whose_times_are_the_predictor_s) {
  const CostModel costs(example_cluster(2, 2), {});
  const ModelConfig model = example_model(6);
  SearchRequest request = request_of(costs, model, 16);
  request.keep = 5;
  const SearchResult result = make_strategy("exact")->find(request);
  ASSERT_EQ(result.best.size(), 5U);
  double before = 0;
  for (const Candidate& candidate : result.best) {
    EXPECT_TRUE(validate(candidate.plan, model).empty());
    const double seconds = predict(candidate.plan, model, costs).step_seconds;
    EXPECT_EQ(candidate.prediction.step_seconds, seconds);
    EXPECT_EQ(candidate.plan.predicted_step_seconds, seconds);
    EXPECT_GE(seconds, before * (1 - 1e-9));
    EXPECT_GE(seconds, result.bound_seconds * (1 - 1e-9));
    before = seconds;
  }
}

TEST(ExactSearch, layers_of_equal_devices_differ_by_one_at_most_and_none_is_lost) {
  for (const auto& [layers, stages] : {std::pair{30, 4}, {10, 3}, {7, 2}, {5, 5}, {12, 5}}) {
    const CostModel costs(example_cluster(stages, 0), {});
    SearchRequest request = request_of(costs, example_model(layers), 8);
    request.keep = 1;
    add_pin(request.pins, text("stages=", stages));
    const SearchResult result = make_strategy("exact")->find(request);
    ASSERT_FALSE(result.best.empty());
    int next = 0;
    int least = layers;
    int most = 0;
    for (const Stage& stage : result.best[0].plan.pipelines[0].stages) {
      EXPECT_EQ(stage.layers[0].begin, next);
      next = stage.layers[0].end;
      least = std::min(least, stage.layers[0].size());
      most = std::max(most, stage.layers[0].size());
    }
    EXPECT_EQ(next, layers);
    EXPECT_LE(most - least, 1);
  }
}

// The error that a request brings.
std::string refusal_of(const SearchRequest& request) {
  try {
    make_strategy("exact")->find(request);
  } catch (const Error& error) {
    EXPECT_EQ(exit_status_of(error.code()), 78) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST(ExactSearch, a_request_that_no_plan_meets_is_refused_with_the_mend) {
  const CostModel costs(example_cluster(4, 0), {});
  const SearchRequest good = request_of(costs, example_model(3), 4);
  SearchRequest stages = good;
  add_pin(stages.pins, "stages=4");
  EXPECT_NE(refusal_of(stages).find("at most 3, the layers of the model"), std::string::npos);
  SearchRequest batch = good;
  add_pin(batch.pins, "micro_batch_size=3");
  EXPECT_NE(refusal_of(batch).find("a multiple of micro_batch_size=3"), std::string::npos);
  SearchRequest kinds = good;
  add_pin(kinds.pins, "kinds=tpu");
  EXPECT_NE(refusal_of(kinds).find("devices to plan for"), std::string::npos);
  SearchRequest many = good;
  add_pin(many.pins, "pipelines=3");
  add_pin(many.pins, "stages=2");
  EXPECT_NE(refusal_of(many).find("6 ranks"), std::string::npos);
  SearchRequest sequence = good;
  sequence.sequence_length = 4096;
  EXPECT_NE(refusal_of(sequence).find("max_position_embeddings=128"), std::string::npos);
  SearchRequest none = good;
  none.global_batch = 0;
  EXPECT_NE(refusal_of(none).find("--global-batch"), std::string::npos);
}

TEST(ExactSearch, a_kind_without_costs_is_refused_by_name) {
  Cluster cluster = example_cluster(1, 1);
  cluster.kinds[1].peak_flops_per_s.clear();
  const CostModel costs(cluster, {});
  EXPECT_NE(refusal_of(request_of(costs, example_model(3), 4)).find("kind b"), std::string::npos);
}

TEST(ExactSearch, pins_hold) {
  const CostModel costs(example_cluster(1, 1), {});
  SearchRequest request = request_of(costs, example_model(4), 8);
  for (const char* pin : {"pipelines=1", "stage0.kind=b", "stage0.layers=1", "schedule=gpipe",
                          "micro_batch_size=2", "recompute=full", "stages=2"}) {
    add_pin(request.pins, pin);
  }
  const SearchResult result = make_strategy("exact")->find(request);
  ASSERT_FALSE(result.best.empty());
  for (const Candidate& candidate : result.best) {
    const Plan& plan = candidate.plan;
    ASSERT_EQ(plan.pipelines.size(), 1U);
    ASSERT_EQ(plan.pipelines[0].stages.size(), 2U);
    EXPECT_EQ(plan.pipelines[0].stages[0].kind, "b");
    EXPECT_EQ(plan.pipelines[0].stages[0].layers[0], (LayerRange{0, 1}));
    EXPECT_EQ(plan.pipelines[0].micro_batch_size, 2);
    EXPECT_EQ(plan.schedule, "gpipe");
    EXPECT_FALSE(plan.pipelines[0].stages[1].recompute.empty());
  }
}

TEST(ExactSearch, what_is_no_pin_is_refused) {
  for (const char* pin : {"", "stages", "stages=", "stages=0", "stages=two", "stage.kind=a",
                          "stage0.colour=a", "recompute=half", "speed=9", "schedule=one-bubble"}) {
    Pins pins;
    EXPECT_THROW(add_pin(pins, pin), Error) << pin;
  }
}

TEST(ExactSearch, the_same_request_has_the_same_answer) {
  const CostModel costs(example_cluster(2, 1), {});
  const SearchRequest request = request_of(costs, example_model(5), 8);
  const SearchResult first = make_strategy("exact")->find(request);
  const SearchResult second = make_strategy("exact")->find(request);
  ASSERT_EQ(first.best.size(), second.best.size());
  for (std::size_t index = 0; index < first.best.size(); ++index) {
    EXPECT_EQ(first.best[index].plan, second.best[index].plan);
  }
}

TEST(StagePricer, its_numbers_are_those_of_the_rank_plans) {
  Cluster cluster = example_cluster(2, 2);
  for (Kind& kind : cluster.kinds) {
    kind.peak_flops_per_s["bf16"] = 4 * kind.peak_flops_per_s["f32"];
  }
  const CostModel costs(cluster, {});
  for (const auto& [tied, dtype] :
       {std::pair(false, DType::kF32), {true, DType::kF32}, {false, DType::kBf16}}) {
    const ModelConfig model = example_model(6, tied);
    Plan plan = example_plan({example_pipeline({0, 2}, {"a", "b"}, {4, 2}, 2, 3),
                              example_pipeline({3, 1}, {"b", "a"}, {1, 5}, 1, 2)});
    plan.dtype = std::string(name_of(dtype));
    plan.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, 4}}};
    plan.pipelines[1].stages[1].recompute = {{Recompute::kSelective, {2, 5}},
                                             {Recompute::kFull, {5, 6}}};
    const std::vector<Segment> segments = segments_of(plan, model);
    const RankPlans ranks = distinct_rank_plans(plan, model, segments);
    const StepNumbers expected = numbers_of(plan, ranks, costs);
    StagePrograms programs(model, {.sequence_length = plan.sequence_length, .dtype = dtype});
    StagePricer pricer(model, costs, programs);
    const StepNumbers found = pricer.numbers(plan, segments);
    for (std::size_t pipeline = 0; pipeline < 2; ++pipeline) {
      for (std::size_t stage = 0; stage < 2; ++stage) {
        const StageNumbers& a = found.stages[pipeline][stage];
        const StageNumbers& b = expected.stages[pipeline][stage];
        for (int phase = 0; phase < kPhases; ++phase) {
          EXPECT_NEAR(a.phase_seconds[phase], b.phase_seconds[phase],
                      1e-12 + 1e-9 * b.phase_seconds[phase]);
        }
        EXPECT_EQ(a.sent_bytes, b.sent_bytes);
      }
    }
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_NEAR(found.check_seconds[rank], expected.check_seconds[rank], 1e-12);
      EXPECT_NEAR(found.norm_seconds[rank], expected.norm_seconds[rank], 1e-12);
      EXPECT_NEAR(found.update_seconds[rank], expected.update_seconds[rank], 1e-12);
      EXPECT_NEAR(found.copy_seconds[rank], expected.copy_seconds[rank], 1e-12);
    }
  }
}

TEST(StagePricer, split_backward_passes_and_virtual_stages_are_priced_as_predicted) {
  const CostModel costs(example_cluster(2, 2), {});
  const ModelConfig model = example_model(8);
  Plan plan = example_plan({example_pipeline({0, 2}, {"a", "b"}, {5, 3}, 2, 4),
                            example_pipeline({3, 1}, {"b", "a"}, {2, 6}, 1, 2)});
  plan.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, 2}}};
  plan.pipelines[1].stages[1].recompute = {{Recompute::kFull, {2, 8}}};
  StagePrograms programs(model, {.sequence_length = plan.sequence_length});
  StagePricer pricer(model, costs, programs);
  Plan split = plan;
  split.schedule = "zero-bubble";
  plan.pipelines[0].stages[0].recompute.clear();
  for (const Plan& one : {split, *interleaved_plan(plan, 2)}) {
    ASSERT_TRUE(validate(one, model).empty());
    const std::vector<Segment> segments = segments_of(one, model);
    const double expected = predict(one, model, costs).step_seconds;
    EXPECT_NEAR(pricer.step_seconds(one, segments, pricer.numbers(one, segments)), expected,
                1e-9 * expected)
        << one.schedule;
  }
}

TEST(UpperBound, holds_only_where_every_search_ended_and_none_was_beaten) {
  UpperBound bound{.kinds = {{.kind = "a"}, {.kind = "b"}}, .tokens_per_second = 100};
  EXPECT_TRUE(bound.holds_for(99));
  EXPECT_FALSE(bound.holds_for(344));
  bound.kinds[1].proven = false;
  EXPECT_FALSE(bound.holds_for(99));
}

// 79 layers can be cut in 2.9 thousand million ways: the search must end without them.
TEST(Exact, a_space_that_no_time_is_enough_for_ends_in_time_and_claims_no_bound) {
  const CostModel costs(example_cluster(4, 4), {});
  SearchRequest request = request_of(costs, example_model(80), 16);
  request.time_limit_s = 0.5;
  request.pins.stages = 8;
  const SearchResult pinned = make_strategy("exact")->find(request);
  EXPECT_FALSE(pinned.complete);
  EXPECT_EQ(pinned.bound_seconds, 0);
  request.pins = {};
  const SearchResult free = make_strategy("exact")->find(request);
  EXPECT_FALSE(free.best.empty());
  EXPECT_GT(free.bound_seconds, 0);
  const CostModel one_kind(example_cluster(8, 0), {});
  SearchRequest alike = request_of(one_kind, example_model(80), 16);
  alike.time_limit_s = 0.5;
  alike.pins.stages = 8;
  EXPECT_FALSE(make_strategy("exact")->find(alike).best.empty());
}

}  // namespace
}  // namespace hethub
