#include <atomic>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/report/page.h"
#include "hethub/trace/perfetto.h"

namespace hethub {
namespace {

namespace fs = std::filesystem;

// A folder as a run leaves it, of two stages on kinds "<b>" and "opencl".
class RunFolder {
 public:
  RunFolder() {
    static std::atomic<int> count = 0;
    path_ = fs::temp_directory_path() / text("hethub-report-", ::getpid(), "-", count++);
    fs::create_directories(path_);
    write("plan.json",
          R"({"format":"hethub-plan/1","model":"config.json","sequence_length":32,"global_batch":4,
"predicted":{"step_seconds":0.9},"pipelines":[{"micro_batch_size":2,"micro_batches":2,"stages":[
{"kind":"<b>","ranks":[0],"layers":[[0,3]]},{"kind":"opencl","ranks":[1],"layers":[[3,4]],
"recompute":"full"}]}]})");
    write("config.json",
          R"({"model_type":"llama","vocab_size":256,"hidden_size":64,"intermediate_size":176,
"num_attention_heads":4,"num_hidden_layers":4,"max_position_embeddings":64})");
    write("cluster.yaml",
          R"({"format":"hethub-cluster/1","kinds":{"<b>":{"backend":"emulated:T4","memory_gib":1},
"opencl":{"backend":"opencl","memory_gib":2}},
"nodes":[{"name":"n","devices":[{"kind":"<b>","count":1},{"kind":"opencl","count":1}]}],"links":[]})");
    write("log.jsonl", log(4));
    write_trace("trace.json", "measured", 2, 1.0);
    write_trace("predicted-trace.json", "predicted", 1, 0.8);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder() { fs::remove_all(path_); }

  const fs::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) {
    write_file(path_ / name, content);
  }
  void remove(const std::string& name) { fs::remove(path_ / name); }
  ReportData read() const { return read_report_data(files_of_run(path_)); }
  std::string page() const {
    const ReportData data = read();
    return report_page(data, summary_of(data));
  }

 private:
  static std::string log(int steps) {
    std::string out;
    for (int step = 1; step <= steps; ++step) {
      out += text(R"({"step":)", step, R"(,"loss":)", 6 - step, R"(,"step_seconds":)", 1.0 / step,
                  R"(,"tokens_per_second":)", 128 * step, R"(,"peak_resident_bytes":104857600})",
                  "\n");
    }
    return out + text(R"({"step":)", steps, R"(,"held_out_loss":1.75,"held_out_tokens":9})", "\n");
  }

  void write_trace(const std::string& name, const std::string& what, int steps, double scale) {
    Timeline timeline{.name = what, .rank_names = {{0, "rank 0 (<b>)"}, {1, "rank 1 (opencl)"}}};
    for (int step = 0; step < steps; ++step) {
      for (int rank = 0; rank < 2; ++rank) {
        double at = 10 * step + rank;
        for (const char* action : {"forward 0", "send_activation 0", "sync_norm", "update"}) {
          const std::string spelled = action;
          timeline.spans.push_back({.rank = rank,
                                    .lane = spelled[0] == 's' ? "comm" : "compute",
                                    .name = spelled,
                                    .category = spelled.substr(0, spelled.find(' ')),
                                    .begin_s = at * scale,
                                    .end_s = (at + 1) * scale});
          at += 1;
        }
      }
    }
    write_perfetto(std::span(&timeline, 1), path_ / name);
  }

  fs::path path_ = {};
};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(Report, a_whole_run_misses_nothing_but_costs) {
  const RunFolder run;
  const ReportData data = run.read();
  ASSERT_EQ(data.missing.size(), 1U);
  EXPECT_NE(data.missing[0].find("costs.json"), std::string::npos);
  ASSERT_EQ(data.memory.size(), 2U);
  EXPECT_EQ(data.memory[0].device, std::int64_t{1} << 30);
  const std::string page = run.page();
  for (const char* heading :
       {"<h2>Plan", "<h2>Timeline of one step", "<h2>Memory a rank", "<h2>Steps", "<h2>Summary"}) {
    EXPECT_EQ(count(page, heading), 1) << heading;
  }
}

TEST(Report, the_parts_of_an_arena_sum_to_its_size) {
  const RunFolder run;
  for (const RankMemory& rank : run.read().memory) {
    EXPECT_GT(rank.parameters, 0);
    EXPECT_EQ(rank.gradients, rank.parameters);
    EXPECT_EQ(rank.optimizer, 2 * rank.parameters);
    EXPECT_GT(rank.lanes, 0);
    EXPECT_GE(rank.rest(), 0);
    EXPECT_LT(rank.rest(), rank.arena / 10);
  }
}

TEST(Report, a_text_of_a_file_cannot_become_markup) {
  const std::string page = RunFolder().page();
  EXPECT_EQ(count(page, "<b>"), 0);
  EXPECT_GT(count(page, "&lt;b&gt;"), 3);
}

TEST(Report, the_page_loads_nothing_and_runs_nothing) {
  const std::string page = RunFolder().page();
  for (const char* word : {"<script", "http://", "https://", "src=\"", "url(", "@import"}) {
    EXPECT_EQ(count(page, word), 0) << word;
  }
}

TEST(Report, the_gantt_has_a_bar_a_span_of_the_last_step) {
  const std::string page = RunFolder().page();
  EXPECT_EQ(count(page, "class=\"bar measured action-"), 8);
  EXPECT_EQ(count(page, "class=\"bar predicted action-"), 8);
  EXPECT_EQ(count(page, "action-send_activation\"><title>"), 4);
}

TEST(Report, the_numbers_are_those_of_the_log_and_the_plan) {
  const RunFolder run;
  const RunSummary summary = summary_of(run.read());
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.first_loss, 5);
  EXPECT_EQ(summary.last_loss, 2);
  EXPECT_EQ(summary.last_held_out_loss, 1.75);
  EXPECT_NEAR(summary.step_seconds, 1.0 / 3, 1e-6);  // of 1/2, 1/3, 1/4
  EXPECT_EQ(summary.tokens_per_second, 384);
  EXPECT_EQ(summary.predicted_step_seconds, 0.9);
  EXPECT_NEAR(summary.prediction_error, 0.9 * 3 - 1, 1e-5);
  EXPECT_EQ(summary.peak_resident_bytes, 100 << 20);
  const std::string page = run.page();
  EXPECT_GT(count(page, "333.3 ms"), 0);
  EXPECT_GT(count(page, "+170 %"), 0);
  EXPECT_GT(count(page, "5 → 2"), 0);
  EXPECT_GT(count(page, "100.00 MiB"), 0);
}

TEST(Report, bubble_and_step_time_of_both_timelines_are_those_of_one_step) {
  const RunSummary summary = summary_of(RunFolder().read());
  EXPECT_NEAR(summary.traced_step_seconds, 5, 1e-6);  // rank 1 begins 1 s late, four actions of 1 s
  EXPECT_NEAR(summary.measured_bubble, 1 - 4.0 / 10, 1e-6);
  EXPECT_NEAR(summary.predicted_bubble, 1 - 4.0 / 10, 1e-6);
}

TEST(Report, emulated_kinds_are_called_so) {
  RunFolder run;
  EXPECT_GT(count(run.page(), "emulated"), 0);
  run.remove("cluster.yaml");
  EXPECT_EQ(count(run.page(), "emulated"), 0);
}

TEST(Report, an_emulated_run_that_lost_its_pace_is_called_void) {
  RunFolder run;
  const std::string log = read_file(run.path() / "log.jsonl");
  run.write("log.jsonl", log + R"({"emulated":true,"pacing":{"ops":9,"overran":0},"void":false})");
  EXPECT_EQ(count(run.page(), "VOID"), 0);
  run.write("log.jsonl", log + R"({"emulated":true,"pacing":{"ops":9,"overran":1},"void":true})");
  EXPECT_EQ(count(run.page(), "VOID"), 1);
  EXPECT_EQ(run.read().log->steps.size(), 4U);
}

TEST(Report, parts_that_are_not_there_are_left_out_and_named) {
  RunFolder run;
  for (const char* file :
       {"cluster.yaml", "log.jsonl", "trace.json", "predicted-trace.json", "config.json"}) {
    run.remove(file);
    EXPECT_GT(count(run.page(), file), 0) << file;
  }
  const std::string page = run.page();
  EXPECT_EQ(count(page, "class=\"warn\">Without"), 6);
  EXPECT_EQ(count(page, "<h2>Memory"), 0);
  EXPECT_EQ(count(page, "<h2>Timeline"), 0);
  EXPECT_EQ(count(page, "<h2>Steps"), 0);
  EXPECT_EQ(count(page, "<h2>Plan"), 1);
}

TEST(Report, a_missing_plan_or_a_missing_file_that_was_named_is_an_error) {
  RunFolder run;
  ReportFiles files = files_of_run(run.path());
  files.log = {run.path() / "other.jsonl", true};
  for (int without = 0; without < 2; ++without) {
    try {
      read_report_data(files);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMissingInput);
    }
    files = files_of_run(run.path());
    run.remove("plan.json");
  }
}

TEST(Report, a_corrupt_line_of_the_log_is_named) {
  RunFolder run;
  run.write("log.jsonl", "{\"step\":1,\n");
  try {
    run.page();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_NE(std::string(error.what()).find("log.jsonl:1"), std::string::npos);
  }
}

}  // namespace
}  // namespace hethub
