#include "hethub/profile/covered_ops.h"

#include <set>

#include <gtest/gtest.h>

#include "hethub/base/text.h"
#include "hethub/plan/validate.h"

namespace hethub {
namespace {

ModelConfig small_model(const std::string& more = "") {
  return parse_model(R"({"model_type":"llama","vocab_size":67,"hidden_size":32,
    "intermediate_size":48,"num_hidden_layers":5,"num_attention_heads":4,
    "num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5)" +
                         more + "}",
                     "config.json");
}

Stage stage(int rank, LayerRange layers, Recompute recompute = Recompute::kNone) {
  Stage made{.kind = "cpu", .ranks = {rank}, .layers = {layers}};
  if (recompute != Recompute::kNone) made.recompute = {{recompute, layers}};
  return made;
}

Stage wide(Stage made, int width) {
  made.tensor_parallel = width;
  for (int rank = 1; rank < width; ++rank) {
    made.ranks.push_back(made.ranks.front() + rank);
  }
  return made;
}

Plan plan_of(std::vector<Pipeline> pipelines) {
  Plan plan{.sequence_length = 16, .pipelines = std::move(pipelines)};
  for (const Pipeline& pipeline : plan.pipelines) {
    plan.global_batch += pipeline.sequences();
  }
  return plan;
}

std::string line_of(const Op& op) {
  return text(facts_of(op).kind, ' ', name_of(op.dtype), ' ', sizes_text(op));
}

std::set<std::string> profiled(const ModelConfig& model) {
  std::set<std::string> lines;
  const auto plans = covering_plans(
      model,
      {.sequence_length = 16, .micro_batch_sizes = {1, 2, 3}, .tensor_widths = {2, 3, 4, 8}});
  for (const Op& op : distinct_ops(plans, model)) {
    lines.insert(line_of(op));
  }
  return lines;
}

// Plans that a planner may come up with, none of them one of covering_plans.
std::vector<Plan> other_plans() {
  return {plan_of({{.micro_batch_size = 2,
                    .micro_batches = 4,
                    .stages = {stage(0, {0, 2}), stage(1, {2, 3}), stage(2, {3, 5})}}}),
          plan_of({{.micro_batch_size = 3,
                    .micro_batches = 2,
                    .stages = {stage(0, {0, 3}, Recompute::kFull),
                               stage(1, {3, 5}, Recompute::kSelective)}}}),
          plan_of({{.micro_batch_size = 1, .micro_batches = 5, .stages = {stage(0, {0, 5})}},
                   {.micro_batch_size = 3,
                    .micro_batches = 1,
                    .stages = {stage(1, {0, 4}), stage(2, {4, 5})}}}),
          plan_of({{.micro_batch_size = 2,
                    .micro_batches = 3,
                    .stages = {wide(stage(0, {0, 2}), 2), stage(2, {2, 5}, Recompute::kFull)}},
                   {.micro_batch_size = 1,
                    .micro_batches = 2,
                    .stages = {wide(stage(3, {0, 5}, Recompute::kSelective), 4)}}})};
}

void expect_programs_covered(const ModelConfig& model) {
  const auto known = profiled(model);
  for (const Plan& plan : other_plans()) {
    const auto segments = segments_of(plan, model);
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      const RankPlan made = make_rank_plan(plan, model, segments, rank);
      for (int phase = 0; phase < kPhases; ++phase) {
        for (const Instruction& instruction :
             made.programs.front().phase(static_cast<Phase>(phase))) {
          const OpBody& body = instruction.op.body;
          if (std::holds_alternative<GroupStart>(body) || std::holds_alternative<GroupWait>(body)) {
            continue;
          }
          EXPECT_TRUE(known.contains(line_of(instruction.op))) << line_of(instruction.op);
        }
      }
    }
  }
}

TEST(CoveredOps, every_instruction_of_other_plans_programs_is_profiled) {
  expect_programs_covered(small_model());
}

TEST(CoveredOps, tied_embeddings_change_nothing_in_that) {
  expect_programs_covered(small_model(R"(,"tie_word_embeddings":true)"));
}

TEST(CoveredOps, every_op_of_every_rank_of_one_and_two_stage_plans_is_profiled) {
  const ModelConfig model = small_model();
  const auto known = profiled(model);
  for (int cut = 0; cut < model.layers; ++cut) {
    Pipeline pipeline{.micro_batch_size = 2, .micro_batches = 4, .stages = {stage(0, {0, 5})}};
    if (cut > 0) pipeline.stages = {stage(0, {0, cut}), stage(1, {cut, 5})};
    const Plan plan = plan_of({pipeline});
    const auto segments = segments_of(plan, model);
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      for (const Op& op : ops_of(make_rank_plan(plan, model, segments, rank), segments)) {
        EXPECT_TRUE(known.contains(line_of(op))) << line_of(op);
      }
    }
  }
}

TEST(CoveredOps, replicas_bring_the_sums_of_collectives) {
  const ModelConfig model = small_model();
  std::set<std::string_view> kinds;
  for (const Op& op : distinct_ops(covering_plans(model, {.sequence_length = 16}), model)) {
    kinds.insert(facts_of(op).kind);
  }
  EXPECT_TRUE(kinds.contains("accumulate"));
  EXPECT_TRUE(kinds.contains("adamw"));
  EXPECT_TRUE(kinds.contains("sum_squares"));
  EXPECT_TRUE(kinds.contains("fill"));
}

TEST(CoveredOps, widths_that_cannot_hold_the_model_are_left_out) {
  const auto widths = [](const std::string& config, std::vector<int> offered) {
    const ModelConfig model = parse_model(config, "config.json");
    const auto plans = covering_plans(
        model, {.sequence_length = 16, .micro_batch_sizes = {1}, .tensor_widths = offered});
    EXPECT_FALSE(distinct_ops(plans, model).empty());
    std::set<int> kept;
    for (const Plan& plan : plans) {
      EXPECT_TRUE(
          validate(plan, model, std::vector<std::string>(plan.world_size(), "any")).empty());
      kept.insert(plan.pipelines.front().stages.front().tensor_parallel);
    }
    return kept;
  };
  EXPECT_EQ(widths(R"({"model_type":"mixtral","vocab_size":67,"hidden_size":32,
    "intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":8,
    "max_position_embeddings":64,"num_local_experts":4})",
                   {2, 4, 8}),
            (std::set<int>{1, 2, 4}));
  EXPECT_EQ(widths(R"({"model_type":"llama","vocab_size":67,"hidden_size":48,
    "intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":12,"num_key_value_heads":3,
    "max_position_embeddings":64})",
                   {2, 3, 4, 6}),
            (std::set<int>{1, 3, 6}));
}

TEST(CoveredOps, no_op_is_listed_twice) {
  const ModelConfig model = small_model();
  const auto plans = covering_plans(
      model,
      {.sequence_length = 16, .micro_batch_sizes = {1, 2, 3}, .tensor_widths = {2, 3, 4, 8}});
  EXPECT_EQ(distinct_ops(plans, model).size(), profiled(model).size());
}

}  // namespace
}  // namespace hethub
