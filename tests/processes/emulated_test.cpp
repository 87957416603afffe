// Emulated kinds from the outside: every text that comes of them says what they are.

#include <gtest/gtest.h>

#include "program.h"

namespace hethub {
namespace {

constexpr const char* kCluster = R"({"format": "hethub-cluster/1",
  "kinds": {"fast": {"backend": "emulated:A100-80GB-SXM:scale=50", "memory_gib": 1},
            "slow": {"backend": "emulated:T4:scale=50", "memory_gib": 1}},
  "nodes": [{"name": "n", "devices": [{"kind": "fast", "count": 1}, {"kind": "slow", "count": 1}]}]})";

class Emulated : public testing::Test {
 protected:
  void SetUp() override {
    space_.write("cluster.json", kCluster);
    space_.write_plan("plan.json",
                      {{.micro_batch_size = 1,
                        .micro_batches = 2,
                        .stages = {stage_of("fast", 0, 0, 2), stage_of("slow", 1, 2, 4)}}});
    space_.make_data(8);
  }

  Workspace space_{"emulated"};
};

TEST_F(Emulated, a_run_its_log_and_its_page_say_that_it_is_emulated) {
  const Outcome trained = space_.hethub(
      "launch --plan plan.json -- train --data text --steps 2 --cluster cluster.json "
      "--log-json log.jsonl --progress-seconds 0");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(trained.says(" | emulated")) << trained.output;
  EXPECT_TRUE(trained.says("ops overran their paced time")) << trained.output;
  const std::string log = read_file(space_.path("log.jsonl"));
  EXPECT_NE(log.find("\"pacing\""), std::string::npos) << log;
  EXPECT_EQ(steps_of(space_.path("log.jsonl")).at(2).at("emulated"), true);
  const Outcome page = space_.hethub("report . --cluster cluster.json -o page.html --json");
  EXPECT_TRUE(page.says(R"("emulated":true)")) << page.output;
}

TEST_F(Emulated, costs_that_were_profiled_on_it_say_so_and_so_does_what_is_predicted_from_them) {
  const Outcome profiled = space_.hethub(
      "profile --model config.json --cluster cluster.json --sequence-length 32 "
      "--micro-batch-sizes 1 --quick -o costs.json");
  ASSERT_EQ(profiled.status, 0) << profiled.output;
  EXPECT_TRUE(profiled.says("emulated")) << profiled.output;
  const Outcome predicted =
      space_.hethub("predict --plan plan.json --cluster cluster.json --costs costs.json");
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  EXPECT_TRUE(predicted.says("emulated            fast")) << predicted.output;
}

TEST_F(Emulated, a_kind_without_a_data_sheet_is_refused_by_name) {
  space_.write("cluster.json", R"({"format": "hethub-cluster/1",
    "kinds": {"fast": {"backend": "emulated:A1000", "memory_gib": 1},
              "slow": {"backend": "emulated:T4", "memory_gib": 1}},
    "nodes": [{"name": "n", "devices": [{"kind": "fast"}, {"kind": "slow"}]}]})");
  const Outcome refused = space_.hethub(
      "launch --plan plan.json -- train --data text --steps 1 --cluster cluster.json");
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(refused.says("'A1000'")) << refused.output;
  EXPECT_TRUE(refused.says("A100-80GB-SXM")) << refused.output;
}

}  // namespace
}  // namespace hethub
