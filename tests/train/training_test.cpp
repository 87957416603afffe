// Whole steps with threads as ranks: the numbers do not depend on the layout.

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "hethub/accel/registry.h"
#include "hethub/base/text.h"
#include "tests/accel/multiplies.h"
#include "tests/train/thread_ranks.h"

namespace hethub {
namespace {

TrainOptions options_for(Plan plan, bool tied, std::int64_t steps) {
  return {.plan = std::move(plan),
          .model = small_model(tied),
          .optimizer = {.learning_rate = 1e-3, .schedule = "constant", .total_steps = steps},
          .start = {.seed = 5},
          .steps = steps,
          .timeout_s = 60};
}

std::vector<Plan> layouts(std::int64_t length) {
  return {cpu_plan(length, {replica(0, 4, 1)}),
          cpu_plan(length, {replica(0, 1, 4)}),
          cpu_plan(length, {two_stages(0, 1, 4, 3)}),
          cpu_plan(length, {replica(0, 1, 2), replica(1, 2, 1)}),
          cpu_plan(length, {replica(0, 1, 3), replica(1, 1, 1)}),
          cpu_plan(length, {two_stages(0, 1, 2, 1), replica(2, 2, 1)}),
          cpu_plan(length, {replica(0, 1, 2), two_stages(1, 1, 1, 2), replica(3, 1, 1)})};
}

void expect_close(double found, double expected, double tolerance) {
  EXPECT_NEAR(found, expected, tolerance * std::abs(expected));
}

TEST(Training, loss_and_gradient_norm_do_not_depend_on_the_layout) {
  const MadeSamples source(32, {});
  for (const bool tied : {false, true}) {
    std::vector<StepResult> expected;
    for (const Plan& plan : layouts(32)) {
      const auto ranks = train_in_threads(options_for(plan, tied, 4), source);
      if (expected.empty()) expected = ranks[0].steps;
      for (const ThreadRank& rank : ranks) {
        for (std::size_t step = 0; step < expected.size(); ++step) {
          expect_close(rank.steps[step].loss, expected[step].loss, 1e-5);
          expect_close(rank.steps[step].gradient_norm, expected[step].gradient_norm, 1e-5);
          EXPECT_EQ(rank.steps[step].tokens, 4 * 32);
        }
      }
    }
  }
}

// Parameters and moments stay f32, so what is rounded to 8 bits on the way hardly tells.
TEST(Training, bf16_learns_as_f32_does_in_every_layout) {
  if (!multiplies(*open_backend("cpu", {}), DType::kBf16)) {
    GTEST_SKIP() << "no matrix products in bf16 on this processor";
  }
  const Cycle source;
  const TrainOptions f32 = options_for(cpu_plan(32, {replica(0, 4, 1)}), false, 60);
  const auto expected = train_in_threads(f32, source).front().steps;
  ASSERT_LT(expected.back().loss, 0.7 * expected.front().loss);
  for (const Plan& plan : layouts(32)) {
    TrainOptions bf16 = options_for(plan, false, 60);
    bf16.plan.dtype = "bf16";
    for (const ThreadRank& rank : train_in_threads(bf16, source)) {
      for (std::size_t step = 0; step < expected.size(); ++step) {
        SCOPED_TRACE(text("step ", step));
        EXPECT_NEAR(rank.steps[step].loss, expected[step].loss, 0.01 * expected[step].loss);
      }
    }
  }
}

// `stages` ranks with `ranges` virtual stages of one layer each.
Plan pipeline_of(const std::string& schedule, int stages, int ranges) {
  Pipeline pipeline{.micro_batch_size = 8, .micro_batches = 8};
  for (int stage = 0; stage < stages; ++stage) {
    pipeline.stages.push_back({.kind = "cpu", .ranks = {stage}});
    for (int range = 0; range < ranges; ++range) {
      const int layer = range * stages + stage;
      pipeline.stages.back().layers.push_back({layer, layer + 1});
    }
  }
  Plan plan = cpu_plan(64, {pipeline});
  plan.schedule = schedule;
  return plan;
}

// Messages of 128 KiB: longer than what a peer takes in before it asks for one.
TEST(Training, every_schedule_trains_the_same_and_no_rank_waits_for_ever) {
  const MadeSamples source(64, {});
  struct Case {
    const char* schedule;
    int stages;
    int ranges;
  };
  const Case cases[] = {{"gpipe", 4, 1},       {"1f1b", 4, 1},        {"zero-bubble", 2, 1},
                        {"zero-bubble", 4, 1}, {"interleaved", 2, 1}, {"interleaved", 2, 2},
                        {"interleaved", 2, 4}, {"interleaved", 4, 2}};
  for (const Case& one : cases) {
    for (const bool tied : {false, true}) {
      const int layers = one.stages * one.ranges;
      TrainOptions alone = options_for(cpu_plan(64, {replica(0, 64, 1, layers)}), tied, 2);
      alone.model = small_model(tied, layers);
      TrainOptions split = alone;
      split.plan = pipeline_of(one.schedule, one.stages, one.ranges);
      const auto expected = train_in_threads(alone, source).front().steps;
      for (const ThreadRank& rank : train_in_threads(split, source)) {
        for (std::size_t step = 0; step < expected.size(); ++step) {
          SCOPED_TRACE(text(one.schedule, " ", one.stages, " x ", one.ranges));
          expect_close(rank.steps[step].loss, expected[step].loss, 1e-5);
          expect_close(rank.steps[step].gradient_norm, expected[step].gradient_norm, 1e-5);
        }
      }
    }
  }
}

// Stages of one layer a range, in turns if the schedule has virtual stages; the last computes its
// forward passes twice.
Pipeline pair_of_stages(int rank, int size, int count, bool is_virtual) {
  Pipeline pipeline = two_stages(rank, size, count, 2);
  if (is_virtual) pipeline.stages[0].layers = {{0, 1}, {2, 3}};
  if (is_virtual) pipeline.stages[1].layers = {{1, 2}, {3, 4}};
  for (const LayerRange& range : pipeline.stages[1].layers) {
    pipeline.stages[1].recompute.push_back({.kind = Recompute::kFull, .layers = range});
  }
  return pipeline;
}

TEST(Training, virtual_stages_and_split_backwards_train_the_same_with_replicas_and_recompute) {
  const MadeSamples source(32, {});
  for (const std::string schedule : {"interleaved", "zero-bubble"}) {
    for (const bool tied : {false, true}) {
      const bool is_virtual = schedule == "interleaved";
      Plan plan =
          cpu_plan(32, {pair_of_stages(0, 1, 4, is_virtual), pair_of_stages(2, 2, 2, is_virtual)});
      plan.schedule = schedule;
      const TrainOptions alone = options_for(cpu_plan(32, {replica(0, 8, 1)}), tied, 3);
      const auto expected = train_in_threads(alone, source).front().steps;
      for (const ThreadRank& rank : train_in_threads(options_for(plan, tied, 3), source)) {
        for (std::size_t step = 0; step < expected.size(); ++step) {
          SCOPED_TRACE(text(schedule, tied ? " tied" : ""));
          expect_close(rank.steps[step].loss, expected[step].loss, 1e-5);
          expect_close(rank.steps[step].gradient_norm, expected[step].gradient_norm, 1e-5);
        }
      }
    }
  }
}

// Sequences of 3, 50, 1 and 10 counted labels: the mean is over labels, not over micro-batches.
TEST(Training, the_loss_is_the_mean_over_counted_labels_however_they_are_spread) {
  const MadeSamples source(64, {3, 50, 1, 10});
  std::vector<StepResult> expected;
  for (const Plan& plan : layouts(64)) {
    const auto ranks = train_in_threads(options_for(plan, false, 2), source);
    if (expected.empty()) expected = ranks[0].steps;
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_EQ(ranks[0].steps[step].tokens, 64);
      expect_close(ranks[0].steps[step].loss, expected[step].loss, 1e-5);
      expect_close(ranks[0].steps[step].gradient_norm, expected[step].gradient_norm, 1e-5);
    }
  }
}

TEST(Training, a_micro_batch_without_a_counted_label_adds_nothing_and_no_nan) {
  const MadeSamples source(32, {0, 32, 0, 5});
  const auto ranks = train_in_threads(
      options_for(cpu_plan(32, {replica(0, 1, 2), replica(1, 1, 2)}), false, 2), source);
  EXPECT_TRUE(std::isfinite(ranks[0].steps[1].loss));
  EXPECT_FALSE(ranks[0].steps[1].skipped);
  EXPECT_EQ(ranks[0].steps[1].tokens, 37);
}

TEST(Training, a_step_without_a_counted_label_is_skipped_and_says_so) {
  const MadeSamples source(32, {0, 0, 0, 0, 32, 32, 32, 32});
  const auto ranks = train_in_threads(
      options_for(cpu_plan(32, {replica(0, 1, 2), replica(1, 1, 2)}), false, 2), source);
  for (const ThreadRank& rank : ranks) {
    EXPECT_TRUE(rank.steps[0].skipped);
    EXPECT_NE(rank.steps[0].reason.find("no counted label"), std::string::npos);
    EXPECT_FALSE(rank.steps[1].skipped);
  }
}

TEST(Training, replicas_and_tied_copies_stay_bit_equal) {
  const MadeSamples source(32, {});
  const Plan replicas = cpu_plan(32, {replica(0, 1, 3), replica(1, 1, 1)});
  const auto ranks = train_in_threads(options_for(replicas, true, 6), source);
  EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  const Plan stages = cpu_plan(32, {two_stages(0, 1, 4, 2)});
  const auto halves = train_in_threads(options_for(stages, true, 6), source);
  const std::size_t table = 256 * 64;  // the tied embedding lies first on both stages
  EXPECT_TRUE(std::equal(halves[0].parameters.begin(), halves[0].parameters.begin() + table,
                         halves[1].parameters.begin()));
}

TEST(Training, the_same_run_twice_gives_the_same_bits) {
  const MadeSamples source(32, {});
  const Plan plan = cpu_plan(32, {two_stages(0, 1, 2, 1), replica(2, 2, 1)});
  const auto first = train_in_threads(options_for(plan, false, 4), source);
  const auto second = train_in_threads(options_for(plan, false, 4), source);
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    EXPECT_EQ(first[rank].parameters, second[rank].parameters);
    EXPECT_EQ(first[rank].steps.back().loss, second[rank].steps.back().loss);
  }
}

TEST(Training, sgd_trains_the_same_under_every_layout_and_otherwise_than_adamw) {
  const MadeSamples source(32, {});
  const auto trained = [&](const Plan& plan, const char* optimizer) {
    TrainOptions options = options_for(plan, false, 6);
    options.optimizer.name = optimizer;
    options.optimizer.learning_rate = 0.05;
    return train_in_threads(options, source).front().steps;
  };
  const auto alone = trained(cpu_plan(32, {replica(0, 4, 1)}), "sgd");
  const auto split = trained(cpu_plan(32, {two_stages(0, 1, 2, 1), replica(2, 2, 1)}), "sgd");
  for (std::size_t step = 0; step < alone.size(); ++step) {
    expect_close(split[step].loss, alone[step].loss, 1e-5);
  }
  EXPECT_LT(alone.back().loss, alone.front().loss);
  EXPECT_NE(alone.back().loss, trained(cpu_plan(32, {replica(0, 4, 1)}), "adamw").back().loss);
}

TEST(Training, when_one_rank_has_a_nan_all_ranks_skip_the_step_and_name_it) {
  const MadeSamples source(32, {});
  TrainOptions options = options_for(cpu_plan(32, {replica(0, 1, 2), replica(1, 1, 2)}), false, 5);
  options.inject = {.nan_rank = 1, .nan_step = 3, .nan_last = 3};
  const auto ranks = train_in_threads(options, source);
  for (const ThreadRank& rank : ranks) {
    for (std::size_t step = 0; step < 5; ++step) {
      EXPECT_EQ(rank.steps[step].skipped, step == 2) << step;
    }
    EXPECT_EQ(rank.steps[2].reason, "reason=nonfinite rank=1 param=model.embed_tokens.weight");
  }
  EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  for (const float value : ranks[0].parameters) {
    ASSERT_TRUE(std::isfinite(value));
  }
}

// Each rank's gradient is finite; the square of what they add up to is not.
TEST(Training, a_gradient_whose_square_overflows_skips_the_step) {
  const MadeSamples source(32, {});
  for (const bool overlap : {false, true}) {
    TrainOptions options =
        options_for(cpu_plan(32, {replica(0, 1, 2), replica(1, 1, 2)}), false, 5);
    options.plan.overlap = overlap;
    options.inject = {.nan_rank = 1, .nan_step = 3, .nan_last = 3, .nan_value = 1e30F};
    const auto ranks = train_in_threads(options, source);
    for (const ThreadRank& rank : ranks) {
      for (std::size_t step = 0; step < 5; ++step) {
        EXPECT_EQ(rank.steps[step].skipped, step == 2) << step;
      }
      EXPECT_NE(rank.steps[2].reason.find(" param=model.embed_tokens.weight"), std::string::npos)
          << rank.steps[2].reason;
    }
    EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  }
}

TEST(Training, an_error_of_one_rank_ends_all_with_its_cause) {
  class Broken : public MadeSamples {
   public:
    Broken() : MadeSamples(32, {}) {}
    void read(std::int64_t sample, std::span<std::int32_t> tokens,
              std::span<std::int32_t> labels) const override {
      if (sample == 6) {
        throw Error(ErrorCode::kCorruptData, {"sample 6", "rubbish", "tokens", "read another"});
      }
      MadeSamples::read(sample, tokens, labels);
    }
  };
  try {
    train_in_threads(options_for(cpu_plan(32, {replica(0, 1, 2), replica(1, 1, 2)}), false, 3),
                     Broken());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sample 6"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hethub
