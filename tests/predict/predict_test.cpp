#include "hethub/predict/predict.h"

#include <array>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/predict/what_if.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

// The seconds of a plan of `stages` equal stages whose forward takes 1 s and backward 2 s, or what
// `phases` says, with links that take no time.
double pipeline_seconds(const std::string& schedule, int stages, int micro_batches,
                        const std::array<double, kPhases>& phases = {1, 2, 0}) {
  const CostModel costs(example_cluster(stages, 0, {0, 1e30}), {});
  std::vector<int> ranks;
  for (int rank = 0; rank < stages; ++rank) {
    ranks.push_back(rank);
  }
  const Plan plan = example_plan({example_pipeline(ranks, std::vector<std::string>(stages, "a"),
                                                   std::vector<int>(stages, 1), 1, micro_batches)},
                                 schedule);
  StepNumbers numbers{.check_seconds = std::vector<double>(stages, 0),
                      .norm_seconds = std::vector<double>(stages, 0),
                      .update_seconds = std::vector<double>(stages, 0)};
  numbers.stages.push_back(std::vector<StageNumbers>(stages, {phases, 100}));
  StepBuilder builder(costs);
  write_step(builder, plan, {}, numbers, ranks, Labels::kNone);
  return simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
}

TEST(Predict, gpipe_and_1f1b_have_the_bubble_of_the_papers) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (const int micro_batches : {1, 2, 3, 4, 7, 8, 16, 64}) {
        const double seconds = pipeline_seconds(schedule, stages, micro_batches);
        const double bubble = 1 - 3.0 * micro_batches / seconds;
        EXPECT_NEAR(bubble, (stages - 1.0) / (micro_batches + stages - 1.0), 1e-9)
            << schedule << " " << stages << " stages " << micro_batches << " micro-batches";
      }
    }
  }
}

TEST(Predict, zero_bubble_has_a_third_of_the_bubble_of_1f1b) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (const int micro_batches : {stages, 2 * stages, 5 * stages + 1, 64}) {
      const double seconds = pipeline_seconds("zero-bubble", stages, micro_batches, {1, 1, 1});
      const double bubble = 1 - 3.0 * micro_batches / seconds;
      EXPECT_NEAR(bubble, (stages - 1.0) / (3 * micro_batches + stages - 1.0), 1e-9)
          << stages << " stages " << micro_batches << " micro-batches";
    }
  }
}

// DAPPLE's early backward passes: with enough micro-batches to fill the pipeline, more of them take
// no more memory; GPipe keeps all of them.
TEST(Predict, memory_of_1f1b_does_not_grow_with_the_micro_batches) {
  const CostModel costs(example_cluster(4, 0), {});
  const auto arena = [&](const std::string& schedule, int micro_batches) {
    const std::vector<std::string> kinds(4, "a");
    const Plan plan = example_plan(
        {example_pipeline({0, 1, 2, 3}, kinds, {1, 1, 1, 1}, 1, micro_batches)}, schedule);
    return predict(plan, example_model(4), costs).ranks[0].arena_bytes;
  };
  EXPECT_EQ(arena("1f1b", 4), arena("1f1b", 8));
  EXPECT_EQ(arena("1f1b", 4), arena("1f1b", 64));
  EXPECT_EQ(arena("gpipe", 16) - arena("gpipe", 12), arena("gpipe", 12) - arena("gpipe", 8));
  EXPECT_GT(arena("gpipe", 12), arena("gpipe", 8));
}

TEST(Predict, interleaved_has_the_bubble_of_its_paper) {
  for (const int stages : {2, 3, 4, 8}) {
    for (const int chunks : {1, 2, 4}) {
      for (const int micro_batches : {stages, 2 * stages, 5 * stages}) {
        const CostModel costs(example_cluster(stages, 0, {0, 1e30}), {});
        Plan plan{.schedule = "interleaved",
                  .pipelines = {{.micro_batch_size = 1, .micro_batches = micro_batches}}};
        std::vector<int> devices;
        for (int stage = 0; stage < stages; ++stage) {
          plan.pipelines[0].stages.push_back(
              {.kind = "a", .ranks = {stage}, .layers = std::vector<LayerRange>(chunks)});
          devices.push_back(stage);
        }
        const std::vector<double> none(stages, 0);
        const StepNumbers numbers{
            .stages = {std::vector<StageNumbers>(stages * chunks, {{1.0, 2.0, 0.0}, 100})},
            .check_seconds = none,
            .norm_seconds = none,
            .update_seconds = none};
        StepBuilder builder(costs);
        write_step(builder, plan, {}, numbers, devices, Labels::kNone);
        const double seconds = simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
        const double bubble = 1 - 3.0 * chunks * micro_batches / seconds;
        EXPECT_NEAR(bubble, (stages - 1.0) / (chunks * micro_batches + stages - 1.0), 1e-9)
            << stages << ' ' << chunks << ' ' << micro_batches;
      }
    }
  }
}

TEST(Predict, a_micro_batch_more_never_lowers_the_rate) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (int stages = 1; stages <= 6; ++stages) {
      double before = 0;
      for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
        const double rate = micro_batches / pipeline_seconds(schedule, stages, micro_batches);
        EXPECT_GE(rate, before * (1 - 1e-12));
        before = rate;
      }
    }
  }
}

Plan two_stages(int micro_batches = 4) {
  return example_plan({example_pipeline({0, 1}, {"a", "b"}, {3, 1}, 2, micro_batches)});
}

Plan two_replicas() {
  return example_plan(
      {example_pipeline({0}, {"a"}, {4}, 2, 3), example_pipeline({1}, {"b"}, {4}, 1, 2)});
}

// The links take long enough to matter.
TEST(Predict, sums_beside_the_backward_pass_are_drawn_and_never_make_a_step_longer) {
  const CostModel costs(example_cluster(1, 1), {});
  Plan plan = two_replicas();
  plan.bucket_bytes = 1 << 16;
  const ModelConfig model = example_model(4);
  const Prediction after = predict(plan, model, costs, {.timeline = true});
  plan.overlap = true;
  const Prediction beside = predict(plan, model, costs, {.timeline = true});
  EXPECT_LT(beside.step_seconds, after.step_seconds);
  std::map<int, int> drawn;
  for (const Span& span : beside.timeline.spans) {
    if (span.lane == "buckets") ++drawn[span.rank];
  }
  const auto segments = segments_of(plan, model);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(drawn[rank], std::ssize(make_rank_plan(plan, model, segments, rank).buckets));
    EXPECT_GT(drawn[rank], 1);
  }
}

TEST(Predict, every_action_of_every_rank_has_one_bar_with_the_runtime_s_name) {
  const CostModel costs(example_cluster(1, 1), {});
  const Prediction prediction = predict(two_stages(), example_model(4), costs, {.timeline = true});
  std::map<int, std::multiset<std::string>> bars;
  for (const Span& span : prediction.timeline.spans) {
    EXPECT_LE(span.begin_s, span.end_s);
    EXPECT_LE(span.end_s, prediction.step_seconds);
    bars[span.rank].insert(span.name);
  }
  for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
    for (const int rank : {0, 1}) {
      EXPECT_EQ(bars[rank].count(text("forward ", micro_batch)), 1U);
      EXPECT_EQ(bars[rank].count(text("backward ", micro_batch)), 1U);
    }
    EXPECT_EQ(bars[0].count(text("send_activation ", micro_batch)), 1U);
    EXPECT_EQ(bars[1].count(text("send_gradient ", micro_batch)), 1U);
  }
  EXPECT_EQ(bars[0].count("update"), 1U);
  EXPECT_EQ(prediction.timeline.rank_names.at(1), "rank 1 (b)");
}

// The last stage is through with its micro-batches long before the first.
TEST(Predict, no_rank_leaves_sync_norm_before_all_have_come_to_it) {
  const CostModel costs(example_cluster(2, 1), {});
  const Plan plan = example_plan({example_pipeline({2, 1, 0}, {"b", "a", "a"}, {2, 1, 1}, 2, 4)});
  const Prediction prediction = predict(plan, example_model(4), costs, {.timeline = true});
  double last_begin = 0;
  double first_end = prediction.step_seconds;
  int ranks = 0;
  for (const Span& span : prediction.timeline.spans) {
    if (span.name == "norm_gradients") last_begin = std::max(last_begin, span.end_s);
    if (span.name != "sync_norm") continue;
    first_end = std::min(first_end, span.end_s);
    ++ranks;
  }
  EXPECT_EQ(ranks, 3);
  EXPECT_GT(last_begin, 0);
  EXPECT_GE(first_end, last_begin);
}

TEST(Predict, a_rank_s_accounts_add_up_to_the_step) {
  const CostModel costs(example_cluster(1, 1), {});
  for (const Plan& plan : {two_stages(), two_replicas()}) {
    const Prediction prediction = predict(plan, example_model(4, true), costs);
    EXPECT_GT(prediction.step_seconds, 0);
    double compute = 0;
    for (const RankPrediction& rank : prediction.ranks) {
      EXPECT_NEAR(
          rank.compute_seconds + rank.update_seconds + rank.transfer_seconds + rank.bubble_seconds,
          prediction.step_seconds, 1e-9);
      compute += rank.compute_seconds + rank.update_seconds;
    }
    EXPECT_NEAR(compute, prediction.cost.seconds, 1e-9);
    EXPECT_NEAR(prediction.tokens_per_second * prediction.step_seconds,
                static_cast<double>(plan.global_batch * plan.sequence_length), 1e-6);
  }
}

// Two copies of a stage: with the experts shared out, each holds half of them, and exchanges rows.
TEST(Predict, an_exchange_of_experts_rows_is_in_the_memory_and_in_the_time) {
  const ModelConfig model = parse_model(
      R"({"model_type":"mixtral","vocab_size":256,"hidden_size":64,"intermediate_size":512,
          "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":128,
          "num_local_experts":4,"num_hidden_layers":2})",
      "config.json");
  Plan plan = example_plan({example_pipeline({0}, {"a"}, {2}, 2, 2)});
  plan.pipelines[0].stages[0].ranks = {0, 1};
  const auto predicted = [&](LinkRate link) {
    return predict(plan, model, CostModel(example_cluster(2, 0, link), {}), {.stages = true});
  };
  const LinkRate slow = {1e-4, 1e9};
  const double whole_copies = predicted(slow).stages.at(0).tensor_seconds;
  EXPECT_EQ(whole_copies, 0);
  const std::int64_t all = predicted(slow).ranks[0].arena_bytes;
  plan.pipelines[0].stages[0].expert_parallel = 2;
  const Prediction prediction = predicted(slow);
  EXPECT_LT(prediction.ranks[0].arena_bytes, all);
  EXPECT_EQ(prediction.ranks[1].arena_bytes,
            make_rank_plan(plan, model, segments_of(plan, model), 1).memory.arena_bytes);
  // Half of the rows' choices go over and come back, forward and backward, in each layer; counts go
  // once.
  const double rows = 2.0 * plan.sequence_length / 2;
  const double bytes = rows * 2 / 2 * 64 * 4;
  const double messages = 4 * (1e-4 + bytes / 1e9) + (1e-4 + 5 * 4 / 1e9);
  EXPECT_NEAR(prediction.stages.at(0).tensor_seconds, 2 * 2 * messages, 0.02 * 4 * messages);
  EXPECT_LT(predicted({1e-6, 1e10}).step_seconds, prediction.step_seconds);
}

TEST(Predict, memory_is_the_arena_that_the_rank_will_allocate) {
  Costs measured;
  measured.kinds["b"].fixed_memory_bytes = 12345;
  measured.kinds["b"].upload = measured.kinds["b"].download = {1e-6, 2e10};
  const CostModel costs(example_cluster(1, 1), measured);
  const ModelConfig model = example_model(4);
  const Plan plan = two_stages();
  const Prediction prediction = predict(plan, model, costs);
  const std::vector<Segment> segments = segments_of(plan, model);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(prediction.ranks[rank].arena_bytes,
              make_rank_plan(plan, model, segments, rank).memory.arena_bytes);
  }
  EXPECT_EQ(prediction.ranks[1].free_bytes(),
            (std::int64_t{1} << 30) - prediction.ranks[1].arena_bytes - 12345);
  EXPECT_EQ(prediction.fullest().rank,
            prediction.ranks[0].free_bytes() < prediction.ranks[1].free_bytes() ? 0 : 1);
}

// One rank's matrix products are halved; what the two ranks add up is paid for.
TEST(Predict, a_wider_stage_computes_less_and_pays_for_its_links) {
  const ModelConfig model = example_model(2);
  const auto seconds = [&](int width, double bytes_per_s) {
    Stage stage{.kind = "a", .tensor_parallel = width, .layers = {{0, 2}}};
    for (int rank = 0; rank < width; ++rank) {
      stage.ranks.push_back(rank);
    }
    Plan plan = two_stages();
    plan.pipelines[0].stages = {stage};
    const CostModel costs(example_cluster(2, 0, {0, bytes_per_s}), {});
    return predict(plan, model, costs).step_seconds;
  };
  EXPECT_LT(seconds(2, 1e30), seconds(1, 1e30));
  EXPECT_GT(seconds(2, 1e6), seconds(1, 1e6));
}

TEST(Predict, faster_links_devices_and_memories_are_never_slower) {
  const ModelConfig model = example_model(4, true);
  for (const Plan& plan : {two_stages(), two_replicas()}) {
    const double before = predict(plan, model, CostModel(example_cluster(1, 1), {})).step_seconds;
    for (const double factor : {1.1, 2.0, 10.0}) {
      Cluster link = example_cluster(1, 1, {1e-6 / factor, 1e10 * factor});
      Cluster compute = example_cluster(1, 1);
      Cluster memory = example_cluster(1, 1);
      for (std::size_t kind = 0; kind < 2; ++kind) {
        compute.kinds[kind].peak_flops_per_s["f32"] *= factor;
        memory.kinds[kind].memory_bytes_per_s *= factor;
      }
      for (const Cluster& faster : {link, compute, memory}) {
        EXPECT_LE(predict(plan, model, CostModel(faster, {})).step_seconds, before);
      }
    }
  }
}

TEST(Predict, permuting_ranks_of_one_kind_changes_nothing_but_who_adds_up_the_norm) {
  const ModelConfig model = example_model(4);
  const CostModel costs(example_cluster(3, 0), {});
  const auto seconds = [&](const std::vector<int>& ranks) {
    const Plan plan = example_plan({example_pipeline(ranks, {"a", "a", "a"}, {2, 1, 1}, 1, 5)});
    return predict(plan, model, costs).step_seconds;
  };
  EXPECT_EQ(seconds({0, 1, 2}), seconds({0, 2, 1})) << "rank 0 adds up; the others are alike";
  const double norm = 2 * 1e-6 * 1.1;  // to rank 0 and back
  for (const std::vector<int>& ranks : {std::vector<int>{1, 0, 2}, {1, 2, 0}, {2, 1, 0}}) {
    EXPECT_NEAR(seconds(ranks), seconds({0, 1, 2}), norm);
  }
}

// The pairs are alike in all but where their members stand.
TEST(Predict, a_group_op_costs_what_the_links_of_its_own_group_take) {
  const ModelConfig model = example_model(4);
  Cluster cluster = example_cluster(0, 0);
  cluster.nodes = {{.name = "n", .devices = {{"a", 3}}}, {.name = "m", .devices = {{"a", 3}}}};
  cluster.links = {{"a", "a", LinkScope::kNode, RouteKind::kDirect, {1e-6, 1e11}},
                   {"a", "a", LinkScope::kNetwork, RouteKind::kHostStaged, {1e-5, 1e7}}};
  const CostModel costs(cluster, {});
  const auto pair_on = [](int first) {
    Pipeline pipeline = example_pipeline({first}, {"a"}, {4}, 1, 4);
    pipeline.stages[0].ranks = {first, first + 1};
    pipeline.stages[0].tensor_parallel = 2;
    return pipeline;
  };
  const auto of = [&](int first, int second) {
    Plan plan = example_plan({pair_on(first), pair_on(second)});
    plan.bucket_bytes = 4;  // each tensor alone, so that the ranks own alike
    return predict(plan, model, costs);
  };
  const Prediction near_first = of(0, 2);
  const Prediction far_first = of(2, 0);
  EXPECT_NEAR(near_first.step_seconds, far_first.step_seconds, 1e-3 * far_first.step_seconds);
  for (const Prediction* one : {&near_first, &far_first}) {
    EXPECT_GT(one->ranks[2].compute_seconds, 2 * one->ranks[0].compute_seconds);
  }
}

// Stage 1 has one lane: the second activation, there at 21 s, is taken once the first gradient has
// left at 24 s.
TEST(Predict, a_lane_takes_its_next_micro_batch_when_what_was_sent_from_it_has_left) {
  const CostModel costs(example_cluster(2, 0, {0, 10}), {});
  const Plan plan = example_plan({example_pipeline({0, 1}, {"a", "a"}, {1, 1}, 1, 2)});
  StepNumbers numbers{.check_seconds = {0, 0}, .norm_seconds = {0, 0}, .update_seconds = {0, 0}};
  numbers.stages.push_back(std::vector<StageNumbers>(2, {{1.0, 2.0, 0.0}, 100}));
  StepBuilder builder(costs);
  write_step(builder, plan, {}, numbers, {0, 1}, Labels::kNone, StepPart::kPipelines);
  EXPECT_NEAR(simulate(builder.step()).step_seconds, 39, 1e-9);
}

TEST(Predict, efficiency_counts_six_flops_a_parameter_and_full_attention) {
  const ModelConfig model = example_model(4);
  Costs measured;
  measured.kinds["a"].gemm_flops_per_s["f32"] = 1e11;
  const CostModel costs(example_cluster(1, 0), measured);
  const Plan plan = example_plan({example_pipeline({0}, {"a"}, {4}, 1, 1)});
  ASSERT_EQ(parameter_count(model),
            2 * 256 * 64 + 64 + 4 * (2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128));
  const double expected = 100 * (6.0 * parameter_count(model) + 12.0 * 4 * 64 * 32);
  const Efficiency efficiency = efficiency_of(plan, model, costs, 100);
  EXPECT_NEAR(efficiency.mfu, expected / 2e11, 1e-15);
  EXPECT_NEAR(efficiency.gemm_fraction, expected / 1e11, 1e-15);
}

TEST(Predict, a_plan_that_leaves_devices_out_runs_on_those_of_its_kinds) {
  const CostModel costs(example_cluster(2, 2), {});
  const Plan plan = example_plan({example_pipeline({1, 0}, {"a", "b"}, {2, 2}, 1, 1)});
  EXPECT_EQ(cluster_ranks_of(plan, costs.ranks()), (std::vector<int>{2, 0}));
  const Plan all = example_plan({example_pipeline({0, 1}, {"a", "a"}, {2, 2}, 1, 1)});
  EXPECT_EQ(cluster_ranks_of(all, costs.ranks()), (std::vector<int>{0, 1}));
  const Plan many = example_plan({example_pipeline({0, 1, 2}, {"b", "b", "b"}, {2, 1, 1}, 1, 1)});
  EXPECT_THROW(cluster_ranks_of(many, costs.ranks()), Error);
}

double step_seconds(const Plan& plan, const CostModel& costs, int most_stepwise) {
  const ModelConfig model = example_model(4);
  const std::vector<Segment> segments = segments_of(plan, model);
  const StepNumbers numbers = numbers_of(plan, distinct_rank_plans(plan, model, segments), costs);
  StepBuilder builder(costs);
  write_step(builder, plan, segments, numbers, cluster_ranks_of(plan, costs.ranks()), Labels::kNone,
             StepPart::kWhole, most_stepwise);
  return simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
}

TEST(Predict, one_pipeline_for_all_that_are_alike_is_a_little_slower_at_most) {
  for (const double rate : {1e7, 1e9, 1e11}) {
    for (int replicas = 2; replicas <= 6; ++replicas) {
      const CostModel costs(example_cluster(replicas, 2 * replicas, {1e-6, rate}), {});
      std::vector<Pipeline> pipelines;
      for (int replica = 0; replica < replicas; ++replica) {
        const int last = replicas + replica;
        pipelines.push_back(example_pipeline({replica, last}, {"a", "b"}, {3, 1}, 1, 5));
        pipelines.push_back(example_pipeline({last + replicas}, {"b"}, {4}, 1, 2));
      }
      const Plan plan = example_plan(pipelines);
      const double stepwise = step_seconds(plan, costs, kMostStepwise);
      const double by_alike = step_seconds(plan, costs, 0);
      EXPECT_GE(by_alike, stepwise * (1 - 1e-9)) << replicas;
      EXPECT_LE(by_alike, stepwise * 1.15) << replicas;
    }
  }
}

TEST(WhatIf, a_part_twice_as_fast_is_worth_at_most_a_factor_of_two_and_all_parts_are_worth_it) {
  const CostModel costs(example_cluster(1, 1), {});
  const ModelConfig model = example_model(4);
  const Plan plan = example_plan({example_pipeline({0, 1}, {"a", "b"}, {2, 2}, 1, 4)}, "1f1b");
  const double before = predict(plan, model, costs).step_seconds;
  const std::vector<Gain> gains = gains_of(plan, model, costs, before);
  ASSERT_EQ(gains.size(), 6U);  // two kinds, links, copies, launches and memory
  EXPECT_EQ(gains.front().improvement.what, "b") << "the slower kind has as many layers";
  CostModel all = costs;
  for (const Gain& gain : gains) {
    EXPECT_GE(gain.speedup, 1);
    EXPECT_LE(gain.speedup, 2);
    if (gain.improvement.what != "memory") all = improved(all, gain.improvement);  // kinds have it
  }
  EXPECT_NEAR(predict(plan, model, all).step_seconds, before / 2, 1e-9 * before);
}

TEST(WhatIf, memory_is_what_ops_that_are_no_products_wait_for) {
  KindCosts measured{.launch_seconds = 1,
                     .ops = {{"linear", "s", "f32", 5}, {"add", "s", "f32", 5}}};
  const CostModel costs(example_cluster(1, 0), {.kinds = {{"a", measured}}});
  const CostModel faster = improved(costs, {"memory", 4});
  EXPECT_EQ(faster.costs().kinds.at("a").ops[0].seconds, 5);
  EXPECT_EQ(faster.costs().kinds.at("a").ops[1].seconds, 2) << "the launch stays";
  EXPECT_EQ(faster.cluster().kinds[0].memory_bytes_per_s,
            4 * costs.cluster().kinds[0].memory_bytes_per_s);
}

TEST(WhatIf, what_is_no_improvement_is_refused) {
  EXPECT_EQ(parse_improvement("a100=1.5x").what, "a100");
  EXPECT_EQ(parse_improvement("links=3").factor, 3);
  for (const char* wrong : {"links", "=2", "links=", "links=x", "links=0", "links=-1", "links=nan",
                            "links=1e9", "links=2xx"}) {
    EXPECT_THROW(parse_improvement(wrong), Error) << wrong;
  }
  EXPECT_THROW(improved(CostModel(example_cluster(1, 1), {}), {"abacus", 2}), Error);
}

TEST(Predict, a_plan_that_is_not_valid_is_refused) {
  Plan plan = two_stages();
  plan.global_batch = 3;
  const CostModel costs(example_cluster(1, 1), {});
  EXPECT_THROW(predict(plan, example_model(4), costs), Error);
}

}  // namespace
}  // namespace hethub
