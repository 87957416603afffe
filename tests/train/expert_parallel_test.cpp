// Copies of a stage that share out the experts and exchange tokens: the numbers are those of one
// rank, whoever has how many experts, and however many tokens choose one.

#include <algorithm>

#include <gtest/gtest.h>

#include "hethub/plan/validate.h"
#include "tests/accel/multiplies.h"
#include "tests/train/wide_plans.h"

namespace hethub {
namespace {

// So many copies of a stage, of which each run of `experts` shares out the experts.
Stage shared(int first, int width, LayerRange layers, int copies, int experts) {
  Stage stage = wide(first, width, layers, copies);
  stage.expert_parallel = experts;
  return stage;
}

// Twelve sequences in all; copies have equal and unequal shares of a micro-batch.
std::vector<Plan> expert_layouts() {
  const LayerRange all = {0, 2};
  const LayerRange first = {0, 1};
  const LayerRange last = {1, 2};
  return {cpu_plan(16, {pipeline(4, 3, {shared(0, 1, all, 2, 2)})}),
          cpu_plan(16, {pipeline(6, 2, {shared(0, 1, all, 5, 5)})}),
          cpu_plan(16, {pipeline(4, 3, {shared(0, 1, all, 4, 2)})}),
          cpu_plan(16, {pipeline(3, 4, {shared(0, 2, all, 2, 2)})}),
          cpu_plan(16, {pipeline(4, 3, {shared(0, 1, first, 3, 3), wide(3, 2, last)})}),
          cpu_plan(16, {pipeline(4, 3, {wide(0, 4, first), shared(4, 1, last, 4, 4)})}),
          cpu_plan(16, {pipeline(3, 2, {shared(0, 1, all, 3, 3)}),
                        pipeline(2, 3, {wide(3, 1, first), shared(4, 1, last, 2, 2)})})};
}

std::vector<StepResult> alone(const ModelConfig& model, const SampleSource& source) {
  const Plan plan = cpu_plan(16, {pipeline(12, 1, {wide(0, 1, {0, model.layers})})});
  return train_in_threads(options_for(plan, model), source).front().steps;
}

TEST(ExpertParallel, trains_the_same_however_copies_share_out_the_experts) {
  const MadeSamples source(16, {16, 3, 9});
  for (const bool tied : {false, true}) {
    const ModelConfig model = odd_mixture(tied, 2);
    const auto expected = alone(model, source);
    int number = 0;
    for (Plan plan : expert_layouts()) {
      SCOPED_TRACE(text(tied ? "tied, " : "", "layout ", number++));
      plan.sequence_parallel = tied;
      plan.overlap = tied;
      expect_alike(train_in_threads(options_for(plan, model), source), expected);
    }
  }
}

TEST(ExpertParallel, trains_the_same_under_each_schedule_and_with_recompute) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_mixture(false, 4);
  const auto expected = alone(model, source);
  for (const std::string schedule : {"1f1b", "gpipe", "zero-bubble", "interleaved"}) {
    SCOPED_TRACE(schedule);
    Plan plan =
        cpu_plan(16, {pipeline(3, 4, {shared(0, 1, {0, 2}, 2, 2), shared(2, 1, {2, 4}, 3, 3)})});
    plan.schedule = schedule;
    std::vector<Stage>& stages = plan.pipelines[0].stages;
    if (schedule == "interleaved") {
      stages[0].layers = {{0, 1}, {2, 3}};
      stages[1].layers = {{1, 2}, {3, 4}};
    }
    stages[0].recompute = {{Recompute::kFull, stages[0].layers[0]}};
    stages[1].recompute = {{Recompute::kSelective, stages[1].layers[0]}};
    expect_alike(train_in_threads(options_for(plan, model), source), expected);
  }
}

// Samples of one token over and over: all rows are alike, so all choose the same two experts.
class OneToken : public MadeSamples {
 public:
  OneToken() : MadeSamples(16, {}) {}
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override {
    MadeSamples::read(sample, tokens, labels);
    std::fill(tokens.begin(), tokens.end(), 7);
  }
};

TEST(ExpertParallel, no_token_is_dropped_where_all_choose_the_same_experts) {
  const OneToken source;
  const ModelConfig model = odd_mixture(false, 2);
  const auto expected = alone(model, source);
  for (const Plan& plan : expert_layouts()) {
    expect_alike(train_in_threads(options_for(plan, model), source), expected);
  }
}

TEST(ExpertParallel, runs_repeat_bit_for_bit) {
  const MadeSamples source(16, {});
  const ModelConfig model = odd_mixture(false, 2);
  const TrainOptions options = options_for(expert_layouts()[6], model, 4);
  const auto ranks = train_in_threads(options, source);
  const auto again = train_in_threads(options, source);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    EXPECT_EQ(again[rank].parameters, ranks[rank].parameters);
  }
}

// Logits that are no numbers may send more rows to an expert than there are.
TEST(ExpertParallel, a_step_of_values_that_are_no_numbers_is_skipped_on_all_ranks) {
  const MadeSamples source(16, {});
  ModelConfig model = odd_mixture(false, 2);
  model.initializer_range = 1e30;
  for (const Plan& plan : expert_layouts()) {
    for (const ThreadRank& rank : train_in_threads(options_for(plan, model), source)) {
      for (const StepResult& step : rank.steps) {
        EXPECT_TRUE(step.skipped);
      }
    }
  }
}

// What is rounded to 8 bits on the way is rounded at other places than on one rank.
TEST(ExpertParallel, bf16_is_near_f32_on_one_rank) {
  if (!multiplies(*open_backend("cpu", {}), DType::kBf16)) {
    GTEST_SKIP() << "no matrix products in bf16 on this processor";
  }
  const MadeSamples source(16, {16, 3, 9});
  ModelConfig model = odd_mixture(false, 2);
  model.initializer_range = 0.05;
  const auto expected = alone(model, source);
  for (Plan plan : expert_layouts()) {
    plan.dtype = "bf16";
    const auto found = train_in_threads(options_for(plan, model), source).front().steps;
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(found[step].loss, expected[step].loss, 0.003 * expected[step].loss);
    }
  }
}

TEST(ExpertParallel, a_rank_holds_its_own_experts_alone) {
  const ModelConfig model = odd_mixture(false, 2);
  const auto parameters = [&](const Plan& plan, int rank) {
    return make_rank_plan(plan, model, segments_of(plan, model), rank).parameters.bytes;
  };
  const Plan whole = cpu_plan(16, {pipeline(6, 2, {wide(0, 1, {0, 2}, 5)})});
  const Plan split = expert_layouts()[1];
  const std::int64_t expert = 3 * 48 * 23 * 4;
  for (int rank = 0; rank < 5; ++rank) {
    const std::int64_t saved = parameters(whole, rank) - parameters(split, rank);
    EXPECT_NEAR(static_cast<double>(saved), 2.0 * 4 * expert, 2.0 * 3 * kMemoryAlignment);
  }
}

TEST(ExpertParallel, what_cannot_be_shared_out_is_refused_by_name) {
  const auto expected_of = [](const Plan& plan, const ModelConfig& model) {
    const auto errors = validate(plan, model);
    return errors.size() == 1 ? errors[0].parts().expected : text(errors.size(), " errors");
  };
  const ModelConfig model = odd_mixture(false, 2);
  EXPECT_EQ(expected_of(cpu_plan(16, {pipeline(6, 2, {shared(0, 1, {0, 2}, 4, 3)})}), model),
            "a divisor of the stage's copies=4");
  EXPECT_EQ(expected_of(cpu_plan(16, {pipeline(6, 2, {shared(0, 2, {0, 2}, 3, 3)})}), model),
            "at most num_local_experts=5 ranks, one expert for each");
  ModelConfig dense = model;
  dense.experts = 0;
  EXPECT_EQ(expected_of(cpu_plan(16, {pipeline(6, 2, {shared(0, 1, {0, 2}, 2, 2)})}), dense),
            "1: this model has no experts");
}

}  // namespace
}  // namespace hethub
