// Ctrl-C ends a run at once, and nobody takes it for a failure of a rank.

#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

// A signal to send once `file` has something in it; 0: none.
struct Sent {
  std::string file = {};
  int signal = 0;
};

// Runs `hethub ARGUMENTS` and sends the signals in their order.
Outcome interrupt(const Workspace& space, const std::string& arguments,
                  const std::vector<Sent>& signals) {
  const std::string output = space.path("output");
  const std::string command =
      text("cd ", space.path("."), " && exec ", HETHUB_PROGRAM, " ", arguments);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    ::signal(SIGINT, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  const auto seconds_passed = [begin = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::error_code error;
  int status = -1;
  bool ended = false;
  for (std::size_t sent = 0; !ended && seconds_passed() < 60; ::usleep(10'000)) {
    ended = ::waitpid(child, &status, WNOHANG) == child;
    if (sent == signals.size() || ended) continue;
    const auto size = std::filesystem::file_size(space.path(signals[sent].file), error);
    if (error || size == 0) continue;
    ::kill(child, signals[sent].signal);
    ++sent;
  }
  if (!ended) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .output = read_file(output)};
}

TEST(Interrupt, ctrl_c_and_sigterm_end_the_ranks_and_are_named_as_the_reason) {
  const Workspace space("interrupt");
  space.make_data(16);
  space.write_plan("plan.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1)});
  const std::string end_of_command =
      "launch --plan plan.json --grace 20 -- train --data text --held-out-fraction 0 "
      "--steps 1000000 --log-json ";
  const Outcome by_user = interrupt(space, end_of_command + "a.jsonl", {{"a.jsonl", SIGINT}});
  EXPECT_EQ(by_user.status, 130) << by_user.output;
  EXPECT_TRUE(by_user.says("interrupted by the user; its 2 ranks have ended")) << by_user.output;
  EXPECT_FALSE(by_user.says("to fail")) << by_user.output;
  const Outcome by_system = interrupt(space, end_of_command + "b.jsonl", {{"b.jsonl", SIGTERM}});
  EXPECT_EQ(by_system.status, 143) << by_system.output;
  EXPECT_TRUE(by_system.says("told to end by SIGTERM")) << by_system.output;
  // Nobody is left that writes the log.
  const auto size = std::filesystem::file_size(space.path("a.jsonl"));
  ::usleep(200'000);
  EXPECT_EQ(std::filesystem::file_size(space.path("a.jsonl")), size);
}

TEST(Interrupt, sigusr1_makes_each_rank_say_what_it_did_and_ends_none) {
  const Workspace space("flight");
  space.make_data(16);
  space.write_plan("plan.json", {replica_of("cpu", 0, 1, 1), replica_of("cpu", 1, 1, 1)});
  const Outcome outcome = interrupt(
      space,
      "launch --plan plan.json -- train --data text --held-out-fraction 0 --steps 1000000 "
      "--log-json log.jsonl --flight-folder f",
      {{"log.jsonl", SIGUSR1}, {"f/flight-rank-0.txt", 0}, {"f/flight-rank-1.txt", SIGINT}});
  EXPECT_EQ(outcome.status, 130) << outcome.output;
  for (const int rank : {0, 1}) {
    const std::string flight = read_file(space.path(text("f/flight-rank-", rank, ".txt")));
    EXPECT_EQ(flight.find(text("flight recorder of rank ", rank)), 0U) << flight;
    EXPECT_NE(flight.find("ring_reduce_scatter f32"), std::string::npos) << flight;
  }
}

}  // namespace
}  // namespace hethub
