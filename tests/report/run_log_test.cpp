#include "hethub/report/run_log.h"

#include <cmath>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/report/summary.h"

namespace hethub {
namespace {

TEST(RunLog, steps_and_evaluations_are_told_apart) {
  const RunLog log = parse_run_log(
      R"({"step":1,"loss":5.5,"tokens_per_second":100,"step_seconds":0.5,"skipped":0}
{"step":1,"held_out_loss":5.25,"held_out_tokens":128}
{"step":2,"loss":null,"tokens_per_second":50,"step_seconds":1,"skipped":1}
)",
      "log.jsonl");
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[0].loss, 5.5);
  EXPECT_TRUE(std::isnan(log.steps[1].loss));
  EXPECT_TRUE(log.steps[1].skipped);
  ASSERT_EQ(log.evaluations.size(), 1U);
  EXPECT_EQ(log.evaluations[0].loss, 5.25);
}

TEST(RunLog, of_a_step_that_a_resumed_run_repeats_the_later_line_counts) {
  const RunLog log = parse_run_log(
      R"({"step":1,"loss":5,"tokens_per_second":1,"step_seconds":1}
{"step":2,"loss":4,"tokens_per_second":1,"step_seconds":1}
{"step":2,"loss":3,"tokens_per_second":1,"step_seconds":1}
)",
      "log.jsonl");
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[1].loss, 3);
}

TEST(RunLog, a_bad_line_is_refused_by_file_and_line) {
  const std::string good = R"({"step":1,"loss":5,"tokens_per_second":1,"step_seconds":1})";
  for (const char* bad : {"{\"step\":", "7", "{}", R"({"step":2,"loss":1})",
                          R"({"step":"two","loss":1,"tokens_per_second":1,"step_seconds":1})"}) {
    try {
      parse_run_log(good + "\n" + good + "\n" + bad + "\n", "run/log.jsonl");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with("run/log.jsonl:3")) << error.what();
    }
  }
}

TEST(RunSummary, the_median_leaves_out_the_first_quarter) {
  EXPECT_TRUE(std::isnan(median_of_steady({})));
  EXPECT_EQ(median_of_steady({3}), 3);
  EXPECT_EQ(median_of_steady({100, 3, 1, 2}), 2);
  EXPECT_EQ(median_of_steady({100, 90, 4, 1, 3, 2, 6, 5}), 3.5);
}

}  // namespace
}  // namespace hethub
