// Every failure names its mend, ends with its status, and ends in time.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

class Failures : public testing::Test {
 protected:
  Failures() : space_(testing::UnitTest::GetInstance()->current_test_info()->name()) {
    space_.make_data(16);
    space_.write_plan("plan.json", {replica_of("cpu", 0, 2, 1)});
    space_.write_plan("two.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1)});
  }

  Outcome train(const std::string& more) {
    return space_.hethub("train --data text --held-out-fraction 0 --steps 2 " + more);
  }

  Workspace space_;
};

TEST_F(Failures, a_wrong_plan_lists_its_faults) {
  Json plan = read_document(space_.path("plan.json"));
  plan["schedule"] = "1f1c";
  plan["global_batch"] = 5;
  space_.write("bad.json", plan.dump());
  const Outcome outcome = train("--plan bad.json");
  EXPECT_EQ(outcome.status, 78);
  EXPECT_TRUE(outcome.says("plan: schedule, found 1f1c, expected one of 1f1b, gpipe"))
      << outcome.output;
  EXPECT_TRUE(outcome.says("plan: global_batch, found 5, expected 2")) << outcome.output;
}

TEST_F(Failures, a_key_that_is_unknown_gets_the_nearest) {
  Json plan = read_document(space_.path("plan.json"));
  plan["globl_batch"] = 2;
  space_.write("bad.json", plan.dump());
  const Outcome outcome = train("--plan bad.json");
  EXPECT_EQ(outcome.status, 78);
  EXPECT_TRUE(outcome.says("did you mean \"global_batch\"?")) << outcome.output;
}

TEST_F(Failures, a_truncated_token_file_is_refused) {
  std::filesystem::resize_file(space_.path("text.bin"), 100);
  const Outcome outcome = train("--plan plan.json");
  EXPECT_EQ(outcome.status, 65);
  EXPECT_TRUE(outcome.says("text.bin")) << outcome.output;
}

TEST_F(Failures, an_activation_that_cannot_be_trained_is_named) {
  space_.write("config.json", Workspace::config(R"(,"hidden_act":"relu2")"));
  const Outcome outcome = train("--plan plan.json");
  EXPECT_EQ(outcome.status, 78);
  EXPECT_TRUE(outcome.says("hidden_act, found relu2, expected silu")) << outcome.output;
}

TEST_F(Failures, a_missing_file_and_a_wrong_option_have_their_own_status) {
  EXPECT_EQ(train("--plan nowhere.json").status, 66);
  EXPECT_EQ(train("--plan plan.json --no-such-option").status, 64);
  EXPECT_EQ(train("--plan plan.json --warmup-steps 9").status, 78);
  EXPECT_EQ(train("--plan plan.json --inject nonsense").status, 64);
}

TEST_F(Failures, an_error_for_machines_is_one_json_object) {
  const Outcome outcome = train("--plan nowhere.json --json");
  const Json error = Json::parse(outcome.output);
  EXPECT_EQ(error["error"], "missing_input");
  EXPECT_EQ(error["verb"], "train");
}

TEST_F(Failures, a_dry_run_needs_no_peer_and_trains_nothing) {
  const Outcome outcome = train("--plan two.json --dry-run");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("rank 1 (cpu)")) << outcome.output;
}

// A listening socket on a port that the system chose.
int listen_somewhere(int& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  ::listen(fd, 1);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  port = ntohs(address.sin_port);
  return fd;
}

TEST_F(Failures, a_port_in_use_ends_the_launch_at_once_and_leaves_no_rank) {
  int port = 0;
  const int fd = listen_somewhere(port);
  const Outcome outcome = space_.hethub(
      text("launch --plan two.json --port ", port, " -- train --data text --steps 2"));
  EXPECT_EQ(outcome.status, 69) << outcome.output;
  EXPECT_TRUE(outcome.says(text("port ", port))) << outcome.output;
  EXPECT_TRUE(outcome.says("in use")) << outcome.output;
  EXPECT_LT(outcome.seconds, 2);
  ::close(fd);
}

TEST_F(Failures, a_peer_that_never_comes_is_named_within_the_deadline) {
  int port = 0;
  ::close(listen_somewhere(port));
  const Outcome outcome = run_command(
      text("cd ", space_.path("."), " && RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 ",
           "MASTER_PORT=", port, " HETHUB_SECRET=0123456789abcdef0123456789abcdef ", HETHUB_PROGRAM,
           " train --plan two.json --data text --held-out-fraction 0 --steps 2 ",
           "--rendezvous-timeout 2"));
  EXPECT_EQ(outcome.status, 69) << outcome.output;
  EXPECT_TRUE(outcome.says("rank 1")) << outcome.output;
  EXPECT_LT(outcome.seconds, 6);
}

TEST_F(Failures, the_flight_recorder_of_a_rank_whose_peer_is_killed_is_written) {
  for (const std::string folder : {"", "f"}) {
    int port = 0;
    ::close(listen_somewhere(port));
    const std::string train = text(HETHUB_PROGRAM,
                                   " train --plan two.json --data text --held-out-fraction 0 "
                                   "--steps 1000000 --log-json log",
                                   folder, folder.empty() ? "" : " --flight-folder " + folder);
    const Outcome outcome = run_command(text(
        "cd ", space_.path("."), "; export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=", port,
        " HETHUB_SECRET=s; RANK=1 LOCAL_RANK=1 ", train, " >/dev/null 2>&1 & ",
        "(until test -s log", folder, "; do sleep 0.05; done; kill -9 $!) & ",
        "RANK=0 LOCAL_RANK=0 timeout 60 ", train));
    EXPECT_EQ(outcome.status, 69) << outcome.output;
    EXPECT_EQ(outcome.says("flight recorder of rank 0"), folder.empty()) << outcome.output;
    const std::string said =
        folder.empty() ? outcome.output : read_file(space_.path("f/flight-rank-0.txt"));
    EXPECT_NE(said.find("messages under way when the job failed"), std::string::npos) << said;
  }
}

TEST_F(Failures, variables_that_are_half_set_are_named) {
  const Outcome outcome = run_command(text("cd ", space_.path("."), " && RANK=0 ", HETHUB_PROGRAM,
                                           " train --plan two.json --data text --steps 2"));
  EXPECT_EQ(outcome.status, 78) << outcome.output;
  EXPECT_TRUE(outcome.says("WORLD_SIZE")) << outcome.output;
}

TEST_F(Failures, open_mpis_mpirun_starts_ranks_that_find_each_other) {
  const std::string as_root = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ";
  if (run_command("mpirun --version").status != 0) GTEST_SKIP() << "no mpirun here";
  const Outcome outcome = run_command(
      text("cd ", space_.path("."), " && HETHUB_SECRET=s ", as_root, "mpirun --oversubscribe -n 2 ",
           HETHUB_PROGRAM, " train --plan two.json --data text --held-out-fraction 0 --steps 2"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_TRUE(outcome.says("found by Open MPI: rank 0 of 2, rank 0 at 127.0.0.1 port "))
      << outcome.output;
}

TEST_F(Failures, the_hosts_of_a_list_are_printed_and_a_bad_list_refused) {
  EXPECT_EQ(space_.hethub("launch --print-hosts --nodelist 'n[08-09],m'").output, "n08\nn09\nm\n");
  EXPECT_EQ(space_.hethub("launch --print-hosts --nodelist 'n[2-1]'").status, 78);
  EXPECT_EQ(space_.hethub("launch --print-hosts --nodelist ''").status, 78);
}

TEST_F(Failures, an_untied_model_without_a_stored_head_asks_for_a_decision) {
  space_.write("config.json", Workspace::config(R"(,"tie_word_embeddings":true)"));
  ASSERT_EQ(train("--plan plan.json --checkpoint-dir c").status, 0);
  ASSERT_EQ(space_.hethub("checkpoint export c -o hf").status, 0);
  space_.write("config.json", Workspace::config());
  const Outcome outcome = train("--plan plan.json --init-from hf");
  EXPECT_EQ(outcome.status, 65);
  EXPECT_TRUE(outcome.says("--tie-missing-head")) << outcome.output;
  EXPECT_EQ(train("--plan plan.json --init-from hf --tie-missing-head").status, 0);
}

TEST_F(Failures, kv_heads_default_to_the_heads) {
  const auto shown = [&](const std::string& more) {
    space_.write("config.json", Workspace::config(more));
    return space_.hethub("plan --show-model config.json").output;
  };
  const std::string missing = shown("");
  EXPECT_NE(missing.find("kv_heads 4"), std::string::npos) << missing;
  EXPECT_EQ(missing, shown(R"(,"num_key_value_heads":null)"));
  EXPECT_NE(shown(R"(,"num_key_value_heads":2)").find("kv_heads 2"), std::string::npos);
}

}  // namespace
}  // namespace hethub
