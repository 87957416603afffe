// Trains the golden sets for real, with one process a rank, and compares with the numbers of an
// independent fp64 reference (tests/data/golden/README.md).

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "hethub/accel/registry.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/base/text.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan_file.h"

namespace hethub {
namespace {

struct Outcome {
  int status = -1;
  std::string output = {};
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> block = {};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe)) {
    outcome.output.append(block.data(), got);
  }
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

std::string folder_of(const std::string& set) {
  return std::string(HETHUB_TEST_DATA) + "/golden/" + set;
}

Stage stage_of(const std::string& kind, int rank, int begin, int end) {
  return {.kind = kind, .ranks = {rank}, .layers = {{begin, end}}};
}

// Layers [begin, end) on ranks `first` and on.
Stage wide_stage(const std::string& kind, int first, int width, LayerRange layers) {
  Stage stage{.kind = kind, .tensor_parallel = width, .layers = {layers}};
  for (int rank = 0; rank < width; ++rank) {
    stage.ranks.push_back(first + rank);
  }
  return stage;
}

// Stages whose layers several ranks share: "width4" is one of four, "width2_then_1" is two stages,
// "width4_and_1" two replicas. The latter two mix the kinds.
void wide(Plan& plan, const std::string& layout, int layers, int batch) {
  const int width = layout[5] - '0';
  const int other = layout.back() - '0';
  const int cut = layers / 2 + 1;
  const std::string kind = layout.ends_with("opencl") ? "opencl" : "cpu";
  Pipeline first{.micro_batch_size = 1, .micro_batches = batch};
  if (layout.find("_then_") != std::string::npos) {
    first.stages = {wide_stage("opencl", 0, width, {0, cut}),
                    wide_stage("cpu", width, other, {cut, layers})};
    plan.pipelines = {first};
    return;
  }
  first.stages = {wide_stage(kind, 0, width, {0, layers})};
  plan.pipelines = {first};
  if (layout.find("_and_") == std::string::npos) return;
  plan.pipelines[0].micro_batches = batch / 2;
  plan.pipelines.push_back({.micro_batch_size = batch - batch / 2,
                            .micro_batches = 1,
                            .stages = {wide_stage("opencl", width, other, {0, layers})}});
}

// "experts2" is two copies that share out the experts, "experts2_then_1" two stages of several
// kinds, of which the first is so.
void experts(Plan& plan, const std::string& layout, int layers, int batch) {
  const std::string kind = layout == "experts2" ? "cpu" : "opencl";
  const bool then = layout.ends_with("_then_1");
  const int cut = then ? layers / 2 : layers;
  Stage stage = stage_of(kind, 0, 0, cut);
  stage.ranks = {0, 1};
  stage.expert_parallel = 2;
  plan.pipelines = {{.micro_batch_size = 2, .micro_batches = batch / 2, .stages = {stage}}};
  if (then) plan.pipelines[0].stages.push_back(stage_of("cpu", 2, cut, layers));
}

// The layout of one test, for a model of so many layers and a batch of so many sequences.
Plan plan_of(const std::string& layout, int layers, int batch) {
  Plan plan{.sequence_length = 32, .global_batch = batch};
  const int cut = layers / 2 + 1;
  const auto two_stages = [&](const std::string& first, const std::string& second) {
    plan.pipelines.push_back(
        {.micro_batch_size = 1,
         .micro_batches = batch,
         .stages = {stage_of(first, 0, 0, cut), stage_of(second, 1, cut, layers)}});
  };
  if (layout == "cpu_then_opencl") two_stages("cpu", "opencl");
  if (layout == "opencl_then_cpu") two_stages("opencl", "cpu");
  if (layout == "torch_then_cpu") two_stages("torch", "cpu");
  if (layout == "emulated_kinds") {  // a pipeline of two beside a replica of a third
    two_stages("emulated:A100-80GB-SXM:scale=0.01", "emulated:T4:scale=0.01");
    plan.pipelines[0].micro_batches = batch / 2;
    plan.pipelines.push_back({.micro_batch_size = batch - batch / 2,
                              .micro_batches = 1,
                              .stages = {stage_of("emulated:MI250X:scale=0.01", 2, 0, layers)}});
  }
  if (layout == "zero_bubble") {
    two_stages("cpu", "opencl");
    plan.schedule = "zero-bubble";
  }
  if (layout == "interleaved") {  // two virtual stages on each of two kinds
    two_stages("cpu", "opencl");
    plan.schedule = "interleaved";
    plan.pipelines[0].stages[0].layers = {{0, 1}, {2, layers - 1}};
    plan.pipelines[0].stages[1].layers = {{1, 2}, {layers - 1, layers}};
  }
  if (layout.starts_with("width")) wide(plan, layout, layers, batch);
  if (layout.starts_with("experts")) experts(plan, layout, layers, batch);
  if (layout == "uneven_replicas") {
    plan.pipelines.push_back({.micro_batch_size = 1,
                              .micro_batches = batch / 2 + 1,
                              .stages = {stage_of("cpu", 0, 0, layers)}});
    plan.pipelines.push_back({.micro_batch_size = batch - batch / 2 - 1,
                              .micro_batches = 1,
                              .stages = {stage_of("opencl", 1, 0, layers)}});
  }
  if (layout == "pipeline_beside_replica_with_recompute") {
    two_stages("opencl", "cpu");
    plan.schedule = "gpipe";
    plan.pipelines[0].micro_batches = batch / 2;
    plan.pipelines[0].stages[1].recompute = {{Recompute::kFull, {cut, layers}}};
    plan.pipelines.push_back({.micro_batch_size = batch / 2,
                              .micro_batches = 1,
                              .stages = {stage_of("cpu", 2, 0, layers)}});
    plan.pipelines[1].stages[0].recompute = {{Recompute::kSelective, {0, layers}}};
  }
  return plan;
}

class Golden : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Golden, losses_and_gradient_norms_equal_the_reference) {
  const auto& [set, layout] = GetParam();
  if (layout.starts_with("torch") && !is_backend("torch")) {
    GTEST_SKIP() << "no plug-in torch in this build";
  }
  const std::string folder = folder_of(set);
  std::string how = " --backend " + layout;
  const std::string file = text(testing::TempDir(), "golden-", set, "-", layout, "-", ::getpid());
  if (!is_backend(layout)) {
    const ModelConfig model = read_model(folder);
    const Json tokens = read_document(folder + "/tokens.json");
    const auto batch = static_cast<int>(tokens["batches"][0].size());
    write_file(file, to_json(plan_of(layout, model.layers, batch)).dump());
    how = " --plan " + file;
  }
  const Outcome outcome = run(std::string(HETHUB_PROGRAM) + " verify " + folder + how);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find(" right, 0 wrong"), std::string::npos) << outcome.output;
  std::filesystem::remove(file);
}

std::string name_of(const testing::TestParamInfo<std::tuple<std::string, std::string>>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(
    , Golden,
    testing::Combine(testing::Values("llama", "llama3", "mistral", "qwen2", "deep"),
                     testing::Values("cpu", "opencl", "torch", "cpu_then_opencl", "opencl_then_cpu",
                                     "torch_then_cpu", "zero_bubble", "interleaved",
                                     "emulated_kinds", "uneven_replicas",
                                     "pipeline_beside_replica_with_recompute")),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Wide, Golden,
    testing::Values(std::tuple("llama", "width2"), std::tuple("llama3", "width2_opencl"),
                    std::tuple("llama", "width2_then_2"), std::tuple("qwen2", "width2_then_1"),
                    std::tuple("qwen3", "width2"), std::tuple("qwen3", "width1_then_2"),
                    std::tuple("mistral", "width4"), std::tuple("deep", "width2_and_2"),
                    std::tuple("qwen2", "width4_and_1"), std::tuple("window", "width2_and_1"),
                    std::tuple("gpt2", "width2_then_1"), std::tuple("gpt2", "width4_and_1"),
                    std::tuple("gpt2", "zero_bubble"), std::tuple("mixtral", "width2_then_2"),
                    std::tuple("mixtral", "width4_and_1"), std::tuple("mixtral", "experts2"),
                    std::tuple("mixtral", "experts2_opencl"),
                    std::tuple("mixtral", "experts2_then_1"), std::tuple("mixtral", "interleaved"),
                    std::tuple("mixtral", "emulated_kinds")),
    name_of);

// What differs here is the model: the layouts that touch each backend and recompute do.
INSTANTIATE_TEST_SUITE_P(
    Families, Golden,
    testing::Combine(testing::Values("qwen3", "llama31", "yarn", "window", "gpt2", "mixtral"),
                     testing::Values("cpu", "opencl", "torch",
                                     "pipeline_beside_replica_with_recompute")),
    name_of);

// A check that cannot fail is none.
TEST(Verify, a_wrong_number_is_found_and_ends_with_status_1) {
  const std::filesystem::path folder = text(testing::TempDir(), "golden-wrong-", ::getpid());
  std::filesystem::copy(folder_of("llama3"), folder, std::filesystem::copy_options::recursive);
  Json expected = read_document(folder / "expected.json");
  expected["fp64"]["training_losses"][7] =
      expected["fp64"]["training_losses"][7].get<double>() * (1 + 1e-4);
  write_file(folder / "expected.json", expected.dump());
  const Outcome outcome = run(std::string(HETHUB_PROGRAM) + " verify " + folder.string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("WRONG"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("1 wrong"), std::string::npos) << outcome.output;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hethub
