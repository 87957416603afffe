// Families whose files differ from what HETHUB holds: saved, resumed under another plan, exported
// and read again.

#include <gtest/gtest.h>

#include "program.h"

namespace hethub {
namespace {

constexpr const char* kTrain =
    " -- train --data text --held-out-fraction 0 --seed 3 --lr-schedule constant ";

// Four layers on two ranks and on one, the first two layers by both of a group.
std::vector<Pipeline> wide_then_narrow() {
  Stage wide{.kind = "cpu", .ranks = {0, 1}, .tensor_parallel = 2, .layers = {{0, 2}}};
  return {{.micro_batch_size = 2, .micro_batches = 2, .stages = {wide, stage_of("cpu", 2, 2, 4)}}};
}

// Two copies of all layers that share out three experts.
std::vector<Pipeline> shared_experts() {
  Stage stage{.kind = "cpu", .ranks = {0, 1}, .expert_parallel = 2, .layers = {{0, 4}}};
  return {{.micro_batch_size = 2, .micro_batches = 2, .stages = {stage}}};
}

std::string config_of(const std::string& family) {
  if (family == "gpt2") {
    return R"({"model_type":"gpt2","vocab_size":257,"n_embd":48,"n_layer":4,"n_head":4,
      "n_positions":33})";
  }
  return R"({"model_type":"mixtral","vocab_size":257,"hidden_size":48,"intermediate_size":31,
    "num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,
    "max_position_embeddings":64,"num_local_experts":3,"initializer_range":0.2})";
}

class Families : public testing::TestWithParam<std::string> {
 protected:
  Families() : space_("family-" + GetParam()) {
    space_.make_data(32);
    space_.write("config.json", config_of(GetParam()));
    space_.write_plan("wide.json", wide_then_narrow());
    if (GetParam() == "mixtral") space_.write_plan("experts.json", shared_experts());
    space_.write_plan("replicas.json", {replica_of("cpu", 0, 1, 3), replica_of("cpu", 1, 1, 1)});
  }

  void train(const std::string& plan, const std::string& options) const {
    const Outcome outcome = space_.hethub("launch --plan " + plan + ".json" + kTrain + options);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  }

  Workspace space_;
};

TEST_P(Families, go_on_under_another_plan_with_the_same_loss) {
  std::vector<std::string> plans = {"wide", "replicas"};
  if (GetParam() == "mixtral") plans.insert(plans.begin(), "experts");
  train(plans.front(), "--lr 1e-3 --steps 2 --checkpoint-dir kept");
  for (const std::string& plan : plans) {
    std::filesystem::copy(space_.path("kept"), space_.path(plan),
                          std::filesystem::copy_options::recursive);
    train(plan, text("--lr 1e-3 --steps 3 --resume auto --checkpoint-dir ", plan, " --log-json ",
                     plan, ".jsonl"));
  }
  const double expected = steps_of(space_.path(plans.front() + ".jsonl")).at(3)["loss"];
  for (const std::string& plan : plans) {
    const double found = steps_of(space_.path(plan + ".jsonl")).at(3)["loss"];
    EXPECT_NEAR(found, expected, 1e-5 * expected) << plan;
  }
}

// Read under one plan and written again, with nothing learnt between.
TEST_P(Families, export_what_they_read) {
  train("wide", "--lr 1e-3 --steps 1 --checkpoint-dir first");
  ASSERT_EQ(space_.hethub("checkpoint export first -o hf").status, 0);
  train("replicas", "--lr 0 --weight-decay 0 --steps 1 --init-from hf --checkpoint-dir second");
  ASSERT_EQ(space_.hethub("checkpoint export second -o again").status, 0);
  EXPECT_EQ(read_file(space_.path("hf/model.safetensors")),
            read_file(space_.path("again/model.safetensors")));
  const Outcome listed = space_.hethub("checkpoint inspect hf");
  const bool is_gpt2 = GetParam() == "gpt2";
  EXPECT_TRUE(listed.says(is_gpt2 ? "transformer.h.3.attn.c_attn.weight"
                                  : "model.layers.3.block_sparse_moe.experts.2.w1.weight"))
      << listed.output;
}

INSTANTIATE_TEST_SUITE_P(, Families, testing::Values("gpt2", "mixtral"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hethub
