#include "hethub/predict/run_memory.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/predict/run_pricer.h"
#include "hethub/predict/validation.h"

namespace hethub {
namespace {

PublishedRun gpt_22b() {
  PublishedRun run{.id = "gpt 22b",
                   .gated = false,
                   .sequence_length = 2048,
                   .global_batch = 4,
                   .micro_batch_size = 4,
                   .tensor_parallel = 8,
                   .dtype = "f16",
                   .stage_kinds = {{"A100-80GB-SXM"}},
                   .positions = {{0, 48}}};
  run.model = {.family = "llama",
               .vocab_size = 51200,
               .hidden_size = 6144,
               .intermediate_size = 16384,  // as many parameters as 24576 with two matrices
               .layers = 48,
               .heads = 64,
               .kv_heads = 64,
               .head_dim = 96,
               .max_position_embeddings = 2048,
               .tie_word_embeddings = true};
  run.model.windows.assign(48, 0);
  return run;
}

const Software kMegatron = {.attention = AttentionKernel::kStored, .dropout = true};

// Korthikanti et al., table 2: bytes of a layer over sequence · micro-batch · hidden.
double layer_over_sbh(const PublishedRun& run) {
  const auto sbh = static_cast<double>(run.sequence_length * run.micro_batch_size) *
                   static_cast<double>(run.model.hidden_size);
  return kept_bytes(run, kMegatron).layer / sbh;
}

double scores_over_sbh(const PublishedRun& run) {
  return static_cast<double>(run.model.heads * run.sequence_length) /
         static_cast<double>(run.model.hidden_size);
}

constexpr double kStatistics = 0.006;  // of norms and softmax: an f32 a row, in units of sbh

TEST(KeptBytes, of_tensor_parallel_are_the_papers) {
  for (const int width : {1, 2, 4, 8}) {
    PublishedRun run = gpt_22b();
    run.tensor_parallel = width;
    const double expected = 10 + (24 + 5 * scores_over_sbh(run)) / width;
    EXPECT_NEAR(layer_over_sbh(run), expected, kStatistics + 0.05 / width) << width;
  }
}

TEST(KeptBytes, of_sequence_parallel_are_the_papers) {
  for (const int width : {2, 4, 8}) {
    PublishedRun run = gpt_22b();
    run.tensor_parallel = width;
    run.sequence_parallel = true;
    const double expected = (34 + 5 * scores_over_sbh(run)) / width;
    EXPECT_NEAR(layer_over_sbh(run), expected, kStatistics + 0.05 / width) << width;
    run.recompute = Recompute::kSelective;
    EXPECT_NEAR(layer_over_sbh(run), 34.0 / width, kStatistics + 0.05 / width) << width;
  }
}

TEST(KeptBytes, of_full_recompute_are_the_layers_input) {
  PublishedRun run = gpt_22b();
  run.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(layer_over_sbh(run), 2);
}

// Narayanan et al. 2021, section 2.2: the first stage of interleaved schedules keeps
// 1 + (p - 1)/(p v) times what all layers keep.
TEST(RunMemory, interleaved_stages_keep_more_on_the_first_stage) {
  PublishedRun run = gpt_22b();
  run.global_batch = 64;
  run.micro_batch_size = 1;
  run.pipeline_parallel = 4;
  run.stage_kinds.assign(4, {"A100-80GB-SXM"});
  const double layer = kept_bytes(run, kMegatron).layer;
  run.positions = {{0, 12}, {12, 24}, {24, 36}, {36, 48}};
  EXPECT_NEAR(first_stage_layer_bytes(run, kMegatron), 48 * layer, 1);
  run.virtual_stages = 3;
  run.positions.clear();
  for (int first = 0; first < 48; first += 4) {
    run.positions.push_back({first, first + 4});
  }
  EXPECT_NEAR(first_stage_layer_bytes(run, kMegatron), 48 * layer * (1 + 3.0 / 12), 1);
}

TEST(RunMemory, optimizer_state_is_shared_out_as_zero_says) {
  PublishedRun run = gpt_22b();
  run.tensor_parallel = 1;
  run.data_parallel = 4;
  run.global_batch = 16;
  const double whole = mean_state_bytes(run, kMegatron);
  const double held = whole / 18;
  run.zero_stage = 1;
  EXPECT_NEAR(mean_state_bytes(run, kMegatron), held * (2 + 4 + 12.0 / 4), 1);
  run.zero_stage = 2;
  EXPECT_NEAR(mean_state_bytes(run, kMegatron), held * (2 + (4 + 12.0) / 4), 1);
  run.zero_stage = 3;
  EXPECT_NEAR(mean_state_bytes(run, kMegatron), held * 18 / 4, 1);
}

TEST(RunMemory, of_published_tables_is_met) {
  const std::filesystem::path folder = std::filesystem::path(HETHUB_TEST_DATA) / "published";
  const PublishedRuns all = parse_published_runs(read_document(folder / "runs.json"), "runs.json");
  const Sheets sheets = known_sheets();
  RunPricer pricer(sheets);
  const Validation validation = validate_runs(all, pricer);
  EXPECT_LE(validation.memory.at("seqsel_t5, table: activations").mean_abs_error, 0.015);
  EXPECT_LE(validation.memory.at("seqsel_t5, table: states").mean_abs_error, 0.02);
  EXPECT_LE(validation.memory.at("bigscience_a100").mean_abs_error, 0.08);
}

}  // namespace
}  // namespace hethub
