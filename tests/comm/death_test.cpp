#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hethub/comm/rendezvous.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kBytes = 4 << 20;

RendezvousOptions options_of(int rank, int port, Transport transport) {
  return {.rank = rank,
          .world_size = kRanks,
          .master_address = "127.0.0.1",
          .master_port = port,
          .secret = "s",
          .timeout_s = 20,
          .transports = transports_of(name_of(transport))};
}

// Receives until there is a failure: exit status 0 if it names rank 1, which was killed.
int survive(int rank, int port, Transport transport) {
  const auto world = join_world(options_of(rank, port, transport));
  std::vector<std::byte> memory(kBytes);
  const int peer = rank == 0 ? 1 : 0;  // rank 2 waits for what never comes
  try {
    while (true) {
      world->wait(world->post_recv(peer, {.match = 1}, memory), after_seconds(20),
                  {.name = "recv", .number = 1});
    }
  } catch (const Error& error) {
    const bool named = std::string(error.what()).find("rank 1 (host ") != std::string::npos;
    if (!named) ::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return error.code() == ErrorCode::kUnavailable && named ? 0 : 1;
  }
}

// Sends message after message, and is killed while it does.
[[noreturn]] void die(int port, Transport transport) {
  const auto world = join_world(options_of(1, port, transport));
  const std::vector<std::byte> memory(kBytes);
  const Deadline end = after_seconds(0.05);
  std::thread killer([&] {
    std::this_thread::sleep_until(end);
    ::kill(::getpid(), SIGKILL);
  });
  while (true) {
    world->wait(world->post_send(0, {.match = 1}, memory), after_seconds(20), {.name = "send"});
  }
}

int status_of(pid_t process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class EveryTransport : public ::testing::TestWithParam<Transport> {};

TEST_P(EveryTransport, a_rank_killed_in_the_middle_of_a_message_is_named_by_all_others_at_once) {
  const int port = free_port();
  std::vector<pid_t> processes;
  const auto begin = std::chrono::steady_clock::now();
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      if (rank == 1) die(port, GetParam());
      ::_exit(survive(rank, port, GetParam()));
    }
    processes.push_back(process);
  }
  EXPECT_EQ(status_of(processes[0]), 0);
  EXPECT_EQ(status_of(processes[1]), -SIGKILL);
  EXPECT_EQ(status_of(processes[2]), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryTransport,
                         ::testing::ValuesIn(present({Transport::kShm, Transport::kTcp,
                                                      Transport::kUcx})),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace hethub
