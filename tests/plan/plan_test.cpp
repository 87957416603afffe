#include "hethub/plan/plan.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/plan/plan_file.h"
#include "hethub/plan/validate.h"
#include "tests/plan/small_plan.h"

namespace hethub {
namespace {

std::string faults(const Plan& plan, const std::vector<std::string>& kinds = {}) {
  std::string all;
  for (const Error& error : validate(plan, small_model(), kinds)) {
    all += std::string(error.what()) + "\n";
  }
  return all;
}

TEST(Plan, a_good_plan_has_no_faults) {
  EXPECT_EQ(faults(small_plan(false)), "");
  EXPECT_EQ(faults(small_plan(true), {"cpu", "opencl", "cpu"}), "");
}

TEST(Plan, every_fault_is_reported_at_once_with_its_mend) {
  Plan plan = small_plan(true);
  plan.schedule = "1f1c";
  plan.dtype = "f16";
  plan.global_batch = 9;
  plan.sequence_length = 65;
  plan.pipelines[0].stages[0].tensor_parallel = 0;
  plan.pipelines[0].stages[1].layers = {{2, 4}};
  plan.pipelines[1].stages[0].ranks = {1};
  const std::string all = faults(plan, {"cpu", "cpu", "cpu"});
  for (const char* part :
       {"plan: schedule, found 1f1c, expected one of 1f1b, gpipe", "plan: dtype, found f16",
        "plan: global_batch, found 9, expected 7", "plan: sequence_length, found 65",
        "pipeline 0 stage 0: tensor_parallel, found 0",
        "pipeline 0 stage 1: kind of rank 1, found cpu, expected opencl",
        "pipeline 1 stage 0: rank 1, found already used by pipeline 0 stage 1",
        "pipeline 0 stage 1: layers, found [2, 4), expected a range that begins at 3"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\nin\n" << all;
  }
}

TEST(Plan, a_width_must_divide_ranks_and_heads_and_a_copy_needs_a_sequence) {
  const auto faults_of = [](int heads, int key_heads, int width, int ranks) {
    const ModelConfig model = parse_model(
        text(R"({"model_type":"llama","vocab_size":256,"hidden_size":96,"intermediate_size":64,
             "num_hidden_layers":2,"num_attention_heads":)",
             heads, R"(,"num_key_value_heads":)", key_heads, "}"),
        "heads");
    Plan plan{.sequence_length = 8, .global_batch = 1};
    Stage stage{.kind = "cpu", .tensor_parallel = width, .layers = {{0, 2}}};
    for (int rank = 0; rank < ranks; ++rank) {
      stage.ranks.push_back(rank);
    }
    plan.pipelines = {{.stages = {stage}}};
    std::string all;
    for (const Error& error : validate(plan, model)) {
      all += text(error.what(), '\n');
    }
    return all;
  };
  EXPECT_EQ(faults_of(8, 2, 2, 2), "");
  EXPECT_EQ(faults_of(8, 2, 4, 4), "");  // two ranks hold each key head
  EXPECT_NE(faults_of(6, 3, 2, 2).find("num_key_value_heads=3 tp=2"), std::string::npos);
  EXPECT_NE(faults_of(6, 6, 4, 4).find("num_attention_heads=6 tp=4"), std::string::npos);
  EXPECT_NE(faults_of(8, 2, 2, 3).find("a multiple of tensor_parallel=2"), std::string::npos);
  EXPECT_NE(faults_of(8, 2, 1, 2).find("2 copies of the stage"), std::string::npos);
}

TEST(Plan, layers_that_no_stage_or_two_stages_hold_are_faults) {
  Plan plan = small_plan(false);
  plan.pipelines[0].stages[1].layers = {{3, 3}};
  EXPECT_NE(faults(plan).find("layers"), std::string::npos);
  plan.pipelines[0].stages[1].layers = {{3, 5}};
  EXPECT_NE(faults(plan).find("all 4 of the model"), std::string::npos);
}

TEST(Plan, more_stages_than_layers_are_refused) {
  Plan plan = small_plan(false);
  plan.pipelines[0].stages.clear();
  for (int rank = 0; rank < 5; ++rank) {
    plan.pipelines[0].stages.push_back(stage_on("cpu", rank, rank, rank + 1));
  }
  EXPECT_NE(faults(plan).find("at most layers=4"), std::string::npos);
}

TEST(Plan, virtual_stages_need_their_schedule_as_many_on_each_stage_and_whole_runs) {
  Plan plan = small_plan(false);
  plan.pipelines[0].stages[0].layers = {{0, 1}, {2, 3}};
  plan.pipelines[0].stages[1].layers = {{1, 2}, {3, 4}};
  EXPECT_NE(faults(plan).find("\"schedule\": \"interleaved\""), std::string::npos);
  plan.schedule = "interleaved";
  EXPECT_EQ(faults(plan), "");
  plan.pipelines[0].micro_batches = 3;
  plan.global_batch = 3;
  EXPECT_NE(faults(plan).find("whole runs"), std::string::npos);
  plan = small_plan(false);
  plan.schedule = "interleaved";
  EXPECT_EQ(faults(plan), "");
  plan.pipelines[0].stages[0].layers = {{0, 1}, {2, 3}};
  EXPECT_NE(faults(plan).find("as many on every stage"), std::string::npos);
  plan.pipelines[0].stages[0].layers = {{0, 2}, {2, 3}};
  EXPECT_NE(faults(plan).find("layers"), std::string::npos);
}

TEST(Plan, a_rank_that_is_missing_is_named) {
  Plan plan = small_plan(false);
  plan.pipelines[0].stages[1].ranks = {3};
  EXPECT_NE(faults(plan).find("rank 1 in no stage"), std::string::npos);
}

TEST(PlanFile, reads_back_what_it_writes) {
  Plan plan = small_plan(true);
  plan.predicted_step_seconds = 0.25;
  plan.pipelines[0].stages[0].recompute = {{Recompute::kFull, {0, 3}}};
  plan.pipelines[1].stages[0].recompute = {{Recompute::kSelective, {1, 3}}};
  const Json json = to_json(plan);
  EXPECT_EQ(json["pipelines"][0]["stages"][0]["recompute"], "full");
  EXPECT_EQ(parse_plan(json, "plan"), plan);
}

TEST(PlanFile, several_recompute_ranges_of_one_kind_are_kept) {
  Plan plan = small_plan(true);
  plan.pipelines[1].stages[0].recompute = {{Recompute::kFull, {0, 1}}, {Recompute::kFull, {2, 4}}};
  EXPECT_EQ(parse_plan(to_json(plan), "plan"), plan);
}

TEST(PlanFile, numbers_that_do_not_fit_are_refused) {
  Json json = to_json(small_plan(false));
  json["pipelines"][0]["stages"][0]["layers"][0][0] = std::int64_t{1} << 32;
  EXPECT_THROW(parse_plan(json, "plan"), Error);
  json = to_json(small_plan(false));
  for (const std::int64_t rank : {std::int64_t{-1}, std::int64_t{2147483647}}) {
    json["pipelines"][0]["stages"][0]["ranks"][0] = rank;
    EXPECT_THROW(parse_plan(json, "plan"), Error);
  }
}

TEST(PlanFile, an_unknown_key_names_the_nearest) {
  Json json = to_json(small_plan(false));
  json["pipelines"][0]["micro_batchs"] = 4;
  try {
    parse_plan(json, "plan.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().what, "plan.json: pipelines[0]: unknown key");
    EXPECT_EQ(error.parts().fix, "did you mean \"micro_batches\"?");
  }
}

TEST(PlanFile, what_the_format_reserves_is_refused_unless_it_is_the_default) {
  Json json = to_json(small_plan(false));
  json["expert_parallel"] = 1;
  EXPECT_NO_THROW(parse_plan(json, "plan"));
  json["expert_parallel"] = 2;
  EXPECT_THROW(parse_plan(json, "plan"), Error);
}

TEST(PlanHash, differs_between_plans_but_not_with_the_prediction) {
  Plan plan = small_plan(false);
  const std::string hash = plan_hash(plan);
  plan.predicted_step_seconds = 3;
  EXPECT_EQ(plan_hash(plan), hash);
  plan.pipelines[0].micro_batches = 2;
  EXPECT_NE(plan_hash(plan), hash);
}

}  // namespace
}  // namespace hethub
