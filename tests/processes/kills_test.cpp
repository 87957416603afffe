// A run that is killed thirty times, at random moments, ends with the bits of one that never was.

#include <csignal>
#include <random>

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

// Starts a command as a process group and kills the whole of it after some seconds.
bool run_and_kill(const std::string& command, double seconds) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::execl("/bin/sh", "sh", "-c", (command + " > /dev/null 2>&1").c_str(), nullptr);
    ::_exit(127);
  }
  ::setpgid(child, child);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (std::chrono::steady_clock::now() < end) {
    if (::waitpid(child, &status, WNOHANG) == child) return false;
    ::usleep(1000);
  }
  ::kill(-child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

TEST(Kills, thirty_at_random_moments_change_no_bit_of_the_losses) {
  const Workspace space("kills");
  space.make_data(96);
  space.write_plan("plan.json",
                   {{.micro_batch_size = 2,
                     .micro_batches = 2,
                     .stages = {stage_of("cpu", 0, 0, 2), stage_of("opencl", 1, 2, 4)}},
                    replica_of("cpu", 2, 2, 1)});
  const std::string train =
      "launch --plan plan.json -- train --data text --held-out-fraction 0 "
      "--lr 1e-3 --steps 400 --checkpoint-every 7 --resume auto ";
  ASSERT_EQ(space.hethub(train + "--checkpoint-dir whole --log-json whole.jsonl").status, 0);
  const std::string command = text("cd ", space.path("."), " && exec ", HETHUB_PROGRAM, " ", train,
                                   "--checkpoint-dir parts --log-json parts.jsonl");
  std::mt19937 random(20240525);
  std::uniform_real_distribution<double> moment(0.3, 2.0);
  int kills = 0;
  for (int attempt = 0; kills < 30 && attempt < 60; ++attempt) {
    if (run_and_kill(command, moment(random))) {
      ++kills;
    } else {
      std::filesystem::remove_all(space.path("parts"));  // it finished: begin again
    }
  }
  EXPECT_EQ(kills, 30);
  const Outcome last = space.hethub(train + "--checkpoint-dir parts --log-json parts.jsonl");
  ASSERT_EQ(last.status, 0) << last.output;
  const auto whole = steps_of(space.path("whole.jsonl"));
  ASSERT_EQ(whole.size(), 400U);
  // Every line of every attempt, not only the last of each step.
  std::ifstream in(space.path("parts.jsonl"));
  std::int64_t lines = 0;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) continue;  // cut off by a kill
    ++lines;
    EXPECT_EQ(json["loss"], whole.at(json["step"])["loss"]) << line;
    EXPECT_EQ(json["grad_norm"], whole.at(json["step"])["grad_norm"]) << line;
  }
  EXPECT_GE(lines, 400);
  EXPECT_EQ(steps_of(space.path("whole.jsonl")).rbegin()->second["loss"], whole.at(400)["loss"]);
  EXPECT_EQ(space.hethub("checkpoint verify parts").status, 0);
}

}  // namespace
}  // namespace hethub
