#include <set>

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

Json rows_of(const Workspace& workspace, const std::string& arguments) {
  const Outcome outcome =
      workspace.hethub("bench comm --seconds 0.01 --json " + arguments + " 2>/dev/null");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return outcome.status == 0 ? Json::parse(outcome.output) : Json::array();
}

TEST(BenchComm, no_element_is_wrong_in_any_op_kind_or_transport) {
  const Workspace workspace("bench");
  std::set<std::string> names;
  for (const char* how : {"--ranks 3", "--ranks 2 --transport tcp --dtype bf16 --reduction max",
                          "--ranks 3 --backends cpu,opencl --dtype i32 --reduction avg --root 2",
                          "--ranks 2 --host-staged --dtype i8 --reduction prod"}) {
    for (const Json& row : rows_of(workspace, text("--ops all --sizes 4KiB,20011 --pairs ", how))) {
      names.insert(row["name"]);
      if (row["op"] == "send_recv") continue;
      EXPECT_EQ(row["in_place"]["wrong"], 0) << row;
      EXPECT_EQ(row["out_of_place"]["wrong"], 0) << row;
    }
  }
  for (const char* name : {"all_reduce shm 3 ranks 4 KiB", "broadcast tcp 2 ranks 20011 B",
                           "barrier shm 2 ranks 0 B", "send_recv tcp ranks 0-1 4 KiB"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// Whether this build has the transport, as a user would ask.
bool has_ucx(const Workspace& workspace) {
  return workspace.hethub("devices --routes --backends cpu").says("tcp or ucx");
}

TEST(BenchComm, no_element_is_wrong_over_ucx_which_is_chosen_by_name) {
  const Workspace workspace("bench-ucx");
  if (!has_ucx(workspace)) GTEST_SKIP() << "the transport ucx was not built";
  std::set<std::string> names;
  for (const Json& row :
       rows_of(workspace, "--ops all --sizes 1KiB,100003,3MiB --pairs --ranks 3 --transport ucx")) {
    names.insert(row["name"]);
    if (row["op"] == "send_recv") continue;
    EXPECT_EQ(row["in_place"]["wrong"], 0) << row;
    EXPECT_EQ(row["out_of_place"]["wrong"], 0) << row;
  }
  EXPECT_TRUE(names.contains("all_reduce ucx 3 ranks 1 KiB"));
}

TEST(BenchComm, sixteen_ranks_as_processes_run_every_op_and_no_element_is_wrong) {
  const Workspace workspace("bench-sixteen");
  for (const char* transport : {"shm", "tcp"}) {
    const Json rows = rows_of(
        workspace, text("--ops all --sizes 1KiB,100003 --ranks 16 --transport ", transport));
    EXPECT_EQ(rows.size(), 17U);  // a barrier has no size
    for (const Json& row : rows) {
      EXPECT_EQ(row["in_place"]["wrong"], 0) << row;
      EXPECT_EQ(row["out_of_place"]["wrong"], 0) << row;
    }
  }
}

TEST(BenchComm, a_tuned_table_is_written_and_read) {
  const Workspace workspace("bench-tune");
  const Json rows = rows_of(workspace, "--ops reduce_scatter --sizes 1KiB --tune -o table.json");
  EXPECT_EQ(rows.size(), 4U);  // ring, hierarchical, halving, pairwise
  const std::string rule = R"({"op":"reduce_scatter","algorithm":")";
  const std::string table = read_file(workspace.path("table.json"));
  const std::size_t begin = table.find(rule) + rule.size();
  const std::string fastest = table.substr(begin, table.find('"', begin) - begin);
  const Json used = rows_of(workspace, "--ops reduce_scatter --sizes 1KiB --choices table.json");
  EXPECT_EQ(used.at(0)["algorithm"], fastest + "_reduce_scatter");
}

TEST(BenchComm, show_prints_the_steps_and_runs_nothing) {
  const Workspace workspace("bench-show");
  const Outcome shown =
      workspace.hethub("bench comm --show all_reduce --ranks 2 --algorithm ring --sizes 1KiB");
  EXPECT_EQ(shown.status, 0);
  EXPECT_TRUE(shown.says("all_reduce of 1 KiB over 2 ranks: ring_all_reduce")) << shown.output;
  EXPECT_TRUE(shown.says("rank 1: send chunk")) << shown.output;
}

TEST(BenchComm, dump_ends_with_the_flight_recorder_of_each_rank) {
  const Workspace workspace("bench-dump");
  const Outcome outcome =
      workspace.hethub("bench comm --ranks 2 --sizes 1KiB --seconds 0.01 --dump");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* part : {"flight recorder of rank 0", "flight recorder of rank 1",
                           "direct_all_reduce f32 256 elements: done, 2048 of 2048 bytes",
                           "messages under way: none"}) {
    EXPECT_TRUE(outcome.says(part)) << part << outcome.output;
  }
}

TEST(BenchComm, what_is_not_known_is_refused_by_name) {
  const Workspace workspace("bench-refused");
  const Outcome op = workspace.hethub("bench comm --ops all_reduse");
  EXPECT_EQ(op.status, 78);
  EXPECT_TRUE(op.says("all_reduse") && op.says("reduce_scatter")) << op.output;
  const Outcome size = workspace.hethub("bench comm --sizes 16KB");
  EXPECT_EQ(size.status, 64);
  EXPECT_TRUE(size.says("16KB")) << size.output;
}

TEST(Verify, bf16_is_held_to_its_own_tolerances_and_the_title_says_so) {
  const Workspace workspace("verify-bf16");
  const std::string golden = HETHUB_TEST_DATA "/golden/llama";
  const Outcome outcome = workspace.hethub("verify " + golden + " --backend cpu --dtype bf16");
  if (outcome.says("a processor with AVX-512")) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("on cpu in bf16")) << outcome.output;
  const Outcome strict =
      workspace.hethub("verify " + golden + " --backend cpu --dtype bf16 --tolerance-losses 1e-7");
  EXPECT_EQ(strict.status, 1) << strict.output;
}

}  // namespace
}  // namespace hethub
