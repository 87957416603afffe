#include "hethub/launch/launch.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/comm/tcp/socket.h"

namespace hethub {
namespace {

RankCommand shell(int rank, const std::string& script, const std::string& label = "cpu") {
  return {.rank = rank, .label = label, .argv = {"sh", "-c", script}};
}

struct Outcome {
  LaunchResult result = {};
  std::vector<std::string> lines = {};

  bool has(const std::string& line) const {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }
};

Outcome launch(LaunchOptions options) {
  Outcome outcome;
  options.on_line = [&](std::string_view line, bool) { outcome.lines.emplace_back(line); };
  outcome.result = run_ranks(options);
  return outcome;
}

class Seconds {
 public:
  double passed() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST(Launch, every_rank_gets_torchruns_variables_and_the_same_fresh_secret) {
  const std::string show =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT; "
      "echo secret $HETHUB_SECRET";
  const Outcome first = launch({.ranks = {shell(0, show), shell(1, show, "opencl")}});
  const Outcome second = launch({.ranks = {shell(0, show)}});
  EXPECT_EQ(first.result.exit_status, 0);
  const std::string address = "127.0.0.1:" + std::to_string(first.result.master_port);
  EXPECT_TRUE(first.has("[rank 0 cpu] 0/2 0/2 " + address));
  EXPECT_TRUE(first.has("[rank 1 opencl] 1/2 1/2 " + address));
  std::set<std::string> secrets;
  for (const Outcome* outcome : {&first, &second}) {
    for (const std::string& line : outcome->lines) {
      const std::size_t at = line.find("secret ");
      if (at != std::string::npos) secrets.insert(line.substr(at + 7));
    }
  }
  EXPECT_EQ(secrets.size(), 2U) << "one of each launch";
  EXPECT_EQ(secrets.begin()->size(), 64U);
}

TEST(Launch, output_is_prefixed_line_by_line_and_kept_in_a_log_of_each_rank) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "launch_logs";
  const Outcome outcome = launch(
      {.ranks = {shell(0, "printf 'a\\nb'; echo c >&2"), shell(1, "echo d")}, .log_dir = folder});
  EXPECT_TRUE(outcome.has("[rank 0 cpu] a"));
  EXPECT_TRUE(outcome.has("[rank 0 cpu] b"));
  EXPECT_TRUE(outcome.has("[rank 0 cpu] c"));
  EXPECT_EQ(read_file(folder / "rank-1.log"), "d\n");
  EXPECT_NE(read_file(folder / "rank-0.log").find("a\n"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Launch, the_first_rank_that_fails_is_named_and_the_others_are_ended) {
  const Seconds seconds;
  const Outcome outcome = launch(
      {.ranks = {shell(0, "sleep 30"), shell(1, "echo why >&2; exit 7"), shell(2, "sleep 30")},
       .grace_s = 0.2});
  EXPECT_LT(seconds.passed(), 5);
  EXPECT_EQ(outcome.result.exit_status, 7);
  ASSERT_TRUE(outcome.result.first_failure);
  EXPECT_EQ(outcome.result.first_failure->text(),
            "rank 1 (cpu) ended with status 7; its last error: why");
  EXPECT_EQ(outcome.result.ends.size(), 3U);
}

TEST(Launch, a_rank_that_ignores_sigterm_is_killed) {
  const Seconds seconds;
  const Outcome outcome = launch(
      {.ranks = {shell(0, "trap '' TERM; while true; do sleep 0.1; done"), shell(1, "exit 3")},
       .grace_s = 0.2});
  EXPECT_LT(seconds.passed(), 5);
  EXPECT_EQ(outcome.result.exit_status, 3);
  EXPECT_EQ(outcome.result.ends.back().signal, SIGKILL);
}

TEST(Launch, a_rank_that_lost_a_peer_is_not_blamed_for_it) {
  // Rank 0 tells of the loss before the killed rank has been noticed.
  const Outcome outcome =
      launch({.ranks = {shell(0, "exit 69"), shell(1, "sleep 0.3; kill -9 $$")}, .grace_s = 3});
  ASSERT_TRUE(outcome.result.first_failure);
  EXPECT_EQ(outcome.result.first_failure->rank, 1);
  EXPECT_EQ(outcome.result.exit_status, 128 + SIGKILL);
  EXPECT_EQ(outcome.result.first_failure->text(), "rank 1 (cpu) was ended by signal 9 (Killed)");
}

TEST(Launch, what_a_rank_starts_ends_with_it) {
  const Outcome outcome = launch({.ranks = {shell(0, "sleep 77 & echo $!; sleep 0.1")}});
  ASSERT_FALSE(outcome.lines.empty());
  const int left = std::stoi(outcome.lines[0].substr(std::string("[rank 0 cpu] ").size()));
  const Seconds seconds;
  // Killed, and gone as soon as whoever inherited it has taken note.
  const auto alive = [left] {
    std::ifstream stat("/proc/" + std::to_string(left) + "/stat");
    std::string pid;
    std::string name;
    std::string state;
    stat >> pid >> name >> state;
    return !state.empty() && state != "Z";
  };
  while (alive() && seconds.passed() < 5) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(alive());
}

TEST(Launch, a_program_that_cannot_be_started_is_named) {
  const Outcome outcome =
      launch({.ranks = {{.rank = 0, .label = "cpu", .argv = {"/no/such/program"}}}});
  EXPECT_EQ(outcome.result.exit_status, 127);
  EXPECT_NE(outcome.result.first_failure->last_error_line.find("/no/such/program"),
            std::string::npos);
}

TEST(Launch, ranks_are_bound_to_their_cores) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(core), &allowed)) {
    ++core;
  }
  RankCommand command = shell(0, "grep Cpus_allowed_list /proc/self/status");
  command.cores = {core};
  const Outcome outcome = launch({.ranks = {command}});
  EXPECT_TRUE(outcome.has("[rank 0 cpu] Cpus_allowed_list:\t" + std::to_string(core)));
}

TEST(Launch, a_given_port_that_is_in_use_is_refused_before_any_rank_starts) {
  const Descriptor owner = listen_at("127.0.0.1", 0);
  const Seconds seconds;
  try {
    launch({.ranks = {shell(0, "echo started")}, .master_port = local_address(owner.get()).port});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("in use by pid"), std::string::npos) << error.what();
  }
  EXPECT_LT(seconds.passed(), 2);
}

TEST(Launch, some_ranks_of_a_job_need_a_port_and_a_secret) {
  EXPECT_THROW(launch({.ranks = {shell(1, "true")}, .world_size = 2}), Error);
  const Outcome outcome = launch({.ranks = {shell(3, "echo $RANK/$WORLD_SIZE $MASTER_ADDR")},
                                  .world_size = 4,
                                  .master_address = "node0",
                                  .master_port = 29500,
                                  .secret = "s"});
  EXPECT_TRUE(outcome.has("[rank 3 cpu] 3/4 node0"));
}

// A launcher in a process of its own, whose lines come back over a pipe.
class OtherLauncher {
 public:
  explicit OtherLauncher(const std::string& script) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      LaunchOptions options{.ranks = {shell(0, script), shell(1, script)}, .grace_s = 1};
      options.on_line = [&](std::string_view line, bool) {
        const std::string whole = std::string(line) + '\n';
        if (::write(ends[1], whole.data(), whole.size()) < 0) ::_exit(1);
      };
      ::_exit(run_ranks(options).exit_status);
    }
    ::close(ends[1]);
    lines_ = Descriptor(ends[0]);
  }

  pid_t process() const { return process_; }

  std::string read_line() {
    std::string line;
    for (char byte = 0; ::read(lines_.get(), &byte, 1) == 1 && byte != '\n';) {
      line += byte;
    }
    return line;
  }

  int wait() const {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return status;
  }

 private:
  pid_t process_ = -1;
  Descriptor lines_;
};

TEST(Launch, ctrl_c_is_passed_on_and_the_launcher_waits_for_the_ranks) {
  OtherLauncher launcher(
      "trap 'echo bye; exit 5' INT; echo ready; while true; do sleep 0.05; done");
  std::multiset<std::string> lines = {launcher.read_line(), launcher.read_line()};
  EXPECT_EQ(lines, (std::multiset<std::string>{"[rank 0 cpu] ready", "[rank 1 cpu] ready"}));
  ::kill(launcher.process(), SIGINT);
  lines = {launcher.read_line(), launcher.read_line()};
  EXPECT_EQ(lines, (std::multiset<std::string>{"[rank 0 cpu] bye", "[rank 1 cpu] bye"}));
  const int status = launcher.wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
}

TEST(Launch, a_rank_that_failed_before_ctrl_c_stays_the_reason) {
  OtherLauncher launcher("echo ready; test $RANK = 0 && exit 7; sleep 30");
  launcher.read_line();
  launcher.read_line();
  ::usleep(200'000);  // the grace of a second is not over
  ::kill(launcher.process(), SIGINT);
  const int status = launcher.wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Launch, no_rank_outlives_a_launcher_that_is_killed) {
  OtherLauncher launcher("echo $$; while true; do sleep 0.05; done");
  std::vector<int> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string line = launcher.read_line();
    ranks.push_back(std::stoi(line.substr(line.rfind(' '))));
  }
  ::kill(launcher.process(), SIGKILL);
  launcher.wait();
  EXPECT_EQ(launcher.read_line(), "");  // all writing ends are closed
  const Seconds seconds;
  const auto runs = [](int process) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(stat, line);
    return !line.empty() && line.find(") Z ") == std::string::npos;
  };
  for (const int rank : ranks) {
    while (runs(rank) && seconds.passed() < 5) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(runs(rank));
  }
}

}  // namespace
}  // namespace hethub
