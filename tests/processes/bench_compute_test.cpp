#include <map>

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

constexpr const char* kModel =
    R"({"model_type":"llama","vocab_size":67,"hidden_size":32,"intermediate_size":48,
        "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
        "max_position_embeddings":64,"rms_norm_eps":1e-5})";

Json result_of(const Workspace& workspace, const std::string& arguments) {
  write_file(workspace.path("model.json"), kModel);
  const Outcome outcome = workspace.hethub("bench " + arguments +
                                           " --model model.json --sequence-length 16 --batch 4 "
                                           "--json 2>/dev/null");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return outcome.status == 0 ? Json::parse(outcome.output) : Json::object();
}

TEST(BenchStep, every_op_of_the_step_is_counted_as_often_as_it_runs) {
  const Workspace workspace("bench-step");
  const Json step = result_of(workspace, "step --micro-batch 2 --steps 3 --metered 2");
  std::map<std::string, double> runs;
  double flops = 0;
  for (const Json& row : step["classes"]) {
    runs[row["op"]] = row["runs"];
    EXPECT_GT(row["seconds"], 0) << row;
  }
  for (const Json& row : step["shapes"]) {
    if (row["op"] == "linear") flops += row["flops"].get<double>();
  }
  // Two micro-batches of seven matrices a layer and the head.
  EXPECT_EQ(runs["linear"], 2 * (2 * 7 + 1));
  EXPECT_EQ(runs["linear_grad_weight"], runs["linear"]);
  EXPECT_EQ(runs["attention"], 2 * 2);
  EXPECT_EQ(runs["adamw"], 2 * 9 + 3);
  const double weights = 2 * (32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 48) + 32 * 67;
  EXPECT_EQ(flops, 2.0 * 64 * weights);
  EXPECT_EQ(step["tokens"], 64);
  EXPECT_EQ(step["steps"].size(), 3U);
}

TEST(BenchStep, a_step_on_the_processor_allocates_nothing) {
  const Workspace workspace("bench-step-memory");
  const Json step = result_of(workspace, "step --threads 2 --steps 5 --metered 1");
  EXPECT_EQ(step["allocations"], 0);
  EXPECT_LT(step["page_faults"], 10);
}

TEST(BenchOps, each_shape_has_a_row_and_a_share_of_the_peak) {
  const Workspace workspace("bench-ops");
  const Json result = result_of(workspace, "ops --seconds 0.002 --only linear,attention");
  EXPECT_GT(result["peak_flops_per_s"], 0);
  EXPECT_EQ(result["ops"].size(), 5U + 1U);  // q and o, k and v, gate and up, down, head; attention
  for (const Json& row : result["ops"]) {
    EXPECT_GT(row["of_peak"], 0) << row;
    EXPECT_DOUBLE_EQ(row["flops_per_s"].get<double>() * row["seconds"].get<double>(),
                     row["flops"].get<double>());
  }
}

TEST(BenchStep, micro_batches_that_do_not_make_up_the_batch_are_refused) {
  const Workspace workspace("bench-step-refused");
  write_file(workspace.path("model.json"), kModel);
  const Outcome refused =
      workspace.hethub("bench step --model model.json --batch 4 --micro-batch 3");
  EXPECT_EQ(refused.status, 64);
  EXPECT_TRUE(refused.says("--micro-batch") && refused.says("divisor")) << refused.output;
}

}  // namespace
}  // namespace hethub
