#include "hethub/predict/run_pricer.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/collective/generators.h"
#include "hethub/predict/calibration.h"
#include "hethub/predict/step_builder.h"
#include "hethub/predict/validation.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

PublishedRuns published() {
  const std::filesystem::path folder = std::filesystem::path(HETHUB_TEST_DATA) / "published";
  PublishedRuns all = parse_published_runs(read_document(folder / "runs.json"), "runs.json");
  const Json single = read_document(folder / "runs_vtrain_single.json");
  PublishedRuns one = parse_published_runs(single, "runs_vtrain_single.json");
  for (std::size_t row = 0; row < one.runs.size(); row += 9) {
    all.runs.push_back(one.runs[row]);
  }
  return all;
}

PublishedRun run_named(const PublishedRuns& runs, const std::string& id) {
  for (const PublishedRun& run : runs.runs) {
    if (run.id == id) return run;
  }
  ADD_FAILURE() << "no run " << id;
  return {};
}

TEST(CollectiveSeconds, equals_the_simulation_of_the_algorithms_that_run) {
  const LinkRate rate{3e-6, 1e9};
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const std::int64_t count = 5040 * 100;  // a multiple of every size
    for (const CollectiveAlgorithm& ring :
         {ring_reduce_scatter(ranks), ring_all_gather(ranks), ring_all_reduce(ranks)}) {
      const CostModel costs = homogeneous(ranks, rate);
      StepBuilder builder(costs);
      std::vector<int> group;
      for (int rank = 0; rank < ranks; ++rank) {
        group.push_back(rank);
      }
      SimCollective call =
          builder.begin_collective(group, ring, even_chunks(count, ranks), DType::kF32);
      for (int rank = 0; rank < ranks; ++rank) {
        builder.take_part(call, rank);
      }
      const double expected = collective_seconds(traffic_of(ring), 4.0 * count, rate);
      EXPECT_NEAR(simulate(builder.step()).step_seconds, expected, 1e-9 + 1e-6 * expected)
          << ring.name << ' ' << ranks;
    }
  }
}

TEST(PublishedRuns, rows_that_do_not_say_enough_are_listed_with_the_reason) {
  const Json rows = parse_json(R"([
      {"id": "a", "part": "p", "complete": false},
      {"id": "b", "part": "p", "complete": true, "inconsistent": true, "ep": null},
      {"id": "c", "part": "p", "complete": true, "inconsistent": false, "ep": null, "model": {}},
      7])",
                               "runs.json");
  const PublishedRuns runs = parse_published_runs(rows, "runs.json");
  EXPECT_TRUE(runs.runs.empty());
  ASSERT_EQ(runs.unpriced.size(), 4U);
  EXPECT_EQ(runs.unpriced[1].why, "it contradicts itself");
  EXPECT_EQ(runs.unpriced[2].why, "it does not state seq_len");
  EXPECT_THROW(parse_published_runs(parse_json("{}", "x.json"), "x.json"), Error);
}

TEST(PublishedRuns, parameters_are_those_of_the_published_model) {
  const Sheets sheets = known_sheets();
  const PublishedRuns runs = published();
  const PublishedRun run = run_named(runs, "seqsel-t5-22B-full");
  EXPECT_EQ(run.positions, (std::vector<LayerRange>{{0, 48}}));
  EXPECT_EQ(run.micro_batches(), 1);
  // 12 l h² + V h, less positions and biases.
  const double formula = 12.0 * 48 * 6144 * 6144 + 51200.0 * 6144;
  EXPECT_NEAR(static_cast<double>(parameter_count(run.model)), formula, 0.002 * formula);
}

TEST(PublishedRuns, layers_on_virtual_stages_are_shared_out_as_plans_do) {
  const Json row = parse_json(R"([{"id": "a", "part": "p", "complete": true, "inconsistent": false,
      "ep": null, "seq_len": 512, "global_batch": 8, "micro_batch": 1, "tp": 1, "pp": 4, "dp": 1,
      "vp": 2, "recompute": "none", "dtype": "bf16", "network": {}, "notes": "", "date": "",
      "model": {"gated_mlp": true, "vocab": 512, "hidden": 64, "ffn": 128, "layers": 22, "heads": 4},
      "accelerators": [{"count": 4, "name": "A100-80GB-SXM"}], "measured": {"step_time_s": 1}}])",
                              "runs.json");
  const PublishedRuns runs = parse_published_runs(row, "runs.json");
  ASSERT_EQ(runs.runs.size(), 1U) << runs.unpriced.at(0).why;
  const std::vector<LayerRange> expected = {{0, 2},   {2, 5},   {5, 8},   {8, 11},
                                            {11, 14}, {14, 17}, {17, 20}, {20, 22}};
  EXPECT_EQ(runs.runs[0].positions, expected);
}

TEST(RunPricer, faster_hardware_never_makes_a_step_slower) {
  const PublishedRuns runs = published();
  const Sheets sheets = known_sheets();
  for (const char* id :
       {"seqsel-t5-22B-full", "dgxc-llama3.1-8b-bf16-8", "amp-het_cluster-tp1dp4pp4-mbs1",
        "mpt-70b-s2048-h100_80gb-512-mb8-gb4096-amp_bf16"}) {
    const PublishedRun run = run_named(runs, id);
    const double before = RunPricer(sheets).price(run).step_s;
    EXPECT_GT(before, 0);
    for (int which = 0; which < 4; ++which) {
      Sheets faster = sheets;
      for (DataSheet& sheet : faster.sheets) {
        if (which == 0) sheet.kind.memory_bytes_per_s *= 1.7;
        if (which == 2) sheet.link_bytes_per_s *= 1.7;
        if (which == 3) sheet.network_bytes_per_s_of_node *= 1.7;
        for (auto& [dtype, peak] : sheet.kind.peak_flops_per_s) {
          if (which == 1) peak *= 1.7;
        }
      }
      EXPECT_LE(RunPricer(faster).price(run).step_s, before * (1 + 1e-12)) << id << ' ' << which;
    }
  }
}

TEST(RunPricer, stages_wait_for_their_messages_where_the_framework_does_not_overlap) {
  const PublishedRuns runs = published();
  Sheets sheets = known_sheets();
  const PublishedRun run = run_named(runs, "amp-het_cluster-tp1dp4pp4-mbs1");
  ASSERT_FALSE(sheets.software.at(run.software).overlaps);
  const double blocking = RunPricer(sheets).price(run).pipeline_s;
  sheets.software.at(run.software).overlaps = true;
  const double beside = RunPricer(sheets).price(run).pipeline_s;
  // Each micro-batch is sent on and comes back once on an inner stage.
  const double message = 1024.0 * 1024 * 2;  // bytes: rows, hidden size, f16
  const double least = 2 * run.micro_batches() * message / (10e9 / 8);
  EXPECT_GT(blocking, beside + least);
}

TEST(RunPricer, softmax_over_heads_that_its_kernel_cannot_take_is_slower) {
  PublishedRun run = run_named(published(), "seqsel-t5-22B-full");
  run.micro_batch_size = 1;
  run.global_batch = 1;
  const Sheets sheets = known_sheets();
  ASSERT_EQ(run.model.heads / run.tensor_parallel % 4, 0);
  const double fused = RunPricer(sheets).price(run).step_s;
  run.model.heads = 48;  // 6 of a rank
  run.model.kv_heads = 48;
  run.model.head_dim = 128;
  const double unfused = RunPricer(sheets).price(run).step_s;
  run.model.heads = run.model.kv_heads = 64;  // 8 of a rank, of the same width all together
  run.model.head_dim = 96;
  EXPECT_GT(unfused, fused);
  EXPECT_GT(unfused, RunPricer(sheets).price(run).step_s);
}

TEST(PublishedRuns, virtual_stages_that_a_row_doubts_are_those_of_its_notes) {
  const PublishedRuns runs = published();
  const PublishedRun doubted = run_named(runs, "dgxc-nemotron4-340b-bf16-256");
  EXPECT_EQ(doubted.virtual_stages, 12);
  EXPECT_EQ(doubted.positions.size(), 96U);
  EXPECT_EQ(run_named(runs, "dgxc-nemotron4-15b-bf16-16").virtual_stages, 1);
}

TEST(PublishedRuns, a_ports_rate_is_not_taken_for_a_nodes) {
  const PublishedRuns runs = published();
  EXPECT_EQ(run_named(runs, "flagperf-llama3-70b-H100-64-tp8pp4dp2").node_bytes_per_s, 0);
  EXPECT_DOUBLE_EQ(run_named(runs, "dgxc-nemotron4-15b-bf16-16").node_bytes_per_s, 3200e9 / 8);
}

TEST(RunPricer, eight_bit_products_are_faster_and_nothing_beside_them) {
  const Sheets sheets = known_sheets();
  PublishedRun run = run_named(published(), "dgxc-nemotron4-15b-bf16-16");
  const double before = RunPricer(sheets).price(run).pipeline_s;
  run.dtype = "fp8";
  const double after = RunPricer(sheets).price(run).pipeline_s;
  EXPECT_LT(after, before);
  EXPECT_GT(after, before / 2) << "attention and all that moves memory is as it was";
  run.stage_kinds[0] = {"A100-80GB-SXM"};
  EXPECT_NE(RunPricer(sheets).obstacle(run).find("fp8"), std::string::npos);
}

TEST(RunPricer, what_cannot_be_priced_is_refused_with_the_reason) {
  const Sheets sheets = known_sheets();
  PublishedRun run = run_named(published(), "seqsel-t5-22B-full");
  run.stage_kinds[0] = {"abacus"};
  RunPricer pricer(sheets);
  EXPECT_EQ(pricer.obstacle(run), "there is no data sheet of abacus");
  EXPECT_THROW(pricer.price(run), Error);

  run = run_named(published(), "seqsel-t5-22B-full");
  ASSERT_EQ(run.pipeline_parallel, 1);
  run.virtual_stages = 2;
  EXPECT_NE(pricer.obstacle(run).find("interleaved"), std::string::npos);
}

TEST(Validation, errors_are_summed_up_as_their_definitions_say) {
  std::vector<ValidatedRun> rows(4);
  const double predicted[] = {1.1, 1.8, 3.3, 4};
  for (int row = 0; row < 4; ++row) {
    rows[row].run.measured_s = row + 1;
    rows[row].predicted.step_s = predicted[row];
  }
  const ErrorSummary summary = summary_of({&rows[0], &rows[1], &rows[2], &rows[3]});
  EXPECT_EQ(summary.rows, 4);
  EXPECT_NEAR(summary.mean_abs_error, 0.075, 1e-12);
  EXPECT_NEAR(summary.median_abs_error, 0.1, 1e-12);
  EXPECT_NEAR(summary.max_abs_error, 0.1, 1e-12);
  EXPECT_NEAR(summary.mean_error, 0.025, 1e-12);
  EXPECT_NEAR(summary.rank_correlation, 1, 1e-12);
}

// Upper limits, a little above what docs/predictor.md reports.
TEST(Validation, published_runs_stay_as_near_as_the_page_says) {
  const Sheets sheets = known_sheets();
  RunPricer pricer(sheets);
  const Validation validation = validate_runs(published(), pricer);
  const std::map<std::string, double> limits = {
      {"seqsel_t5", 0.03},  {"vtrain_multi", 0.1}, {"vtrain_single", 0.09},
      {"llmfoundry", 0.07}, {"flagperf", 0.07},    {"bigscience_a100 from 02-25", 0.06},
      {"amp mixed", 0.14},  {"sailor mixed", 0.11}};
  for (const auto& [part, limit] : limits) {
    ASSERT_TRUE(validation.summary.contains(part)) << part;
    EXPECT_LT(validation.summary.at(part).mean_abs_error, limit) << part;
  }
  EXPECT_LT(validation.choice.mean_ratio, 1.05);
  EXPECT_GT(validation.rows.size(), 350U);
}

TEST(Calibration, finds_back_a_constant_that_was_changed) {
  PublishedRuns few;
  for (const PublishedRun& run : published().runs) {
    if (run.part == "vtrain_multi" && few.runs.size() < 12) few.runs.push_back(run);
  }
  const Sheets sheets = known_sheets();
  RunPricer pricer(sheets);
  for (PublishedRun& run : few.runs) {
    run.measured_s = pricer.price(run).step_s;
  }
  Sheets wrong = sheets;
  wrong.classes.at("ampere").ops.products *= 0.8;
  wrong.apply_classes();
  const Calibration found = calibrate(wrong, few);
  EXPECT_GT(found.error_before, 0.1);
  EXPECT_LT(found.error_after, 0.1 * found.error_before);
  EXPECT_EQ(found.rows, 12);
}

}  // namespace
}  // namespace hethub
