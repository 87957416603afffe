// Verbs whose ranks are started otherwise than by themselves, and what a host says of its network
// and routes.

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

// Starts the same command once for each rank, as torchrun would, and waits for all.
Outcome as_ranks(const Workspace& workspace, int ranks, const std::string& arguments) {
  const Outcome port = run_command(
      "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); "
      "print(s.getsockname()[1])'");
  std::string all =
      text("(cd ", workspace.path("."),
           " && export HETHUB_SECRET=s MASTER_ADDR=127.0.0.1 MASTER_PORT=", std::stoi(port.output),
           " WORLD_SIZE=", ranks, "; all=0; ");
  for (int rank = ranks - 1; rank >= 0; --rank) {
    all += text("RANK=", rank, " LOCAL_RANK=", rank, ' ', HETHUB_PROGRAM, ' ', arguments,
                rank == 0 ? " || all=$?; " : " & ");
  }
  return run_command(all + "wait; exit $all)");
}

TEST(Meeting, ranks_that_a_launcher_started_bench_together_and_rank_0_prints) {
  const Workspace workspace("meeting-bench");
  const Outcome outcome =
      as_ranks(workspace, 3, "bench comm --ops all_reduce,barrier --sizes 4KiB --seconds 0.01");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("found by torchrun")) << outcome.output;
  const std::size_t heading = outcome.output.find("# all_reduce, shm, 3 ranks");
  ASSERT_NE(heading, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("# all_reduce", heading + 1), std::string::npos);
}

TEST(Meeting, ranks_that_a_launcher_started_measure_their_own_kinds_and_rank_0_writes_all) {
  const Workspace workspace("meeting-profile");
  const Outcome outcome = as_ranks(
      workspace, 2, "profile --model config.json --backends cpu,opencl --quick -o costs.json");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const Json costs = Json::parse(read_file(workspace.path("costs.json")));
  EXPECT_TRUE(costs["kinds"].contains("cpu") && costs["kinds"].contains("opencl")) << costs;
  EXPECT_FALSE(costs["links"].empty());
}

TEST(Meeting, ranks_that_mean_different_sizes_are_all_named_by_all_within_two_seconds) {
  const Workspace workspace("meeting-inject");
  const Outcome outcome = workspace.hethub(
      "bench comm --ranks 4 --ops all_reduce --sizes 256KiB --inject numel:rank=0,x2");
  EXPECT_EQ(outcome.status, 70) << outcome.output;
  EXPECT_LT(outcome.seconds, 2);
  const std::string verdict =
      "collective mismatch between ranks, found seq 1 pairwise_all_reduce f32 131072 elements "
      "(rank 0) vs pairwise_all_reduce f32 65536 elements (ranks 1-3)";
  std::size_t told = 0;
  for (std::size_t at = outcome.output.find(verdict); at != std::string::npos;
       at = outcome.output.find(verdict, at + 1)) {
    ++told;
  }
  EXPECT_EQ(told, 4U) << outcome.output;
}

TEST(Meeting, a_port_that_is_in_use_ends_a_bench_at_once_and_its_owner_is_named) {
  const Workspace workspace("meeting-port");
  const Outcome outcome = run_command(
      text("python3 -c 'import socket, subprocess; s = socket.socket(); s.bind((\"\", 0)); "
           "s.listen(); raise SystemExit(subprocess.run([\"",
           HETHUB_PROGRAM,
           "\", \"bench\", \"comm\", \"--port\", str(s.getsockname()[1])]).returncode)'"));
  EXPECT_EQ(outcome.status, 69) << outcome.output;
  EXPECT_TRUE(outcome.says("in use by pid ")) << outcome.output;
  EXPECT_LT(outcome.seconds, 2);
}

TEST(Devices, routes_name_each_pair_and_why_it_takes_no_faster_one) {
  const Workspace workspace("routes");
  const Outcome outcome = workspace.hethub("devices --routes --backends cpu,opencl --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const Json rows = Json::parse(outcome.output)["routes"];
  ASSERT_EQ(rows.size(), 3U) << rows;
  EXPECT_EQ(rows[1]["routes"], Json({"direct", "host-staged"}));
  EXPECT_NE(rows[1]["why_not_faster"].get<std::string>().find("does not address its memory"),
            std::string::npos);
}

// Root needs no namespace of users, which some systems do not permit.
std::string alone() { return ::getuid() == 0 ? "unshare -n" : "unshare -rn"; }

// In a network of its own: lo, a bridge docker0 172.17.0.1, eth0 10.0.0.2, eth1 with fe80:: alone.
Outcome devices_net(const std::string& arguments, bool docker_is_up) {
  return run_command(text(
      alone(),
      " sh -c 'ip link set lo up; ip link add docker0 type bridge; "
      "ip addr add 172.17.0.1/16 dev docker0; ",
      docker_is_up
          ? "ip link add inside type veth peer name outside; "
            "ip link set docker0 up; ip link set inside master docker0 up; ip link set outside up; "
          : "",
      "ip link add eth0 type veth peer name far0; ip link add eth1 type veth peer name far1; "
      "for link in eth0 far0 eth1 far1; do ip link set $link up; done; "
      "ip addr add 10.0.0.2/24 dev eth0; ",
      HETHUB_PROGRAM, " devices --net ", arguments, "'"));
}

TEST(Devices, the_interface_for_other_hosts_is_a_card_then_a_bridge_that_is_up_then_none) {
  if (run_command(alone() +
                  " sh -c 'ip link add probe0 type bridge && ip link add probe1 type veth'")
          .status != 0) {
    GTEST_SKIP() << "this system permits no network namespace";
  }
  const Outcome card = devices_net("", true);
  EXPECT_EQ(card.status, 0) << card.output;
  EXPECT_TRUE(card.says("chosen: eth0 10.0.0.2")) << card.output;
  const Outcome bridge = devices_net("--iface ^eth0", true);
  EXPECT_EQ(bridge.status, 0) << bridge.output;
  EXPECT_TRUE(bridge.says("chosen: docker0 172.17.0.1")) << bridge.output;
  const Outcome none = devices_net("--iface ^eth0", false);
  EXPECT_EQ(none.status, 78) << none.output;
  EXPECT_TRUE(none.says("docker0 172.17.0.1 (down)")) << none.output;
  EXPECT_TRUE(none.says("eth0 10.0.0.2")) << none.output;
}

}  // namespace
}  // namespace hethub
