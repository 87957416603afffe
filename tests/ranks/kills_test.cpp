// Ranks are killed at random moments of a collective: all others stop, and name the right one.

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "hethub/accel/registry.h"
#include "hethub/comm/communicator.h"
#include "hethub/comm/tcp/socket.h"
#include "tests/comm/rank_process.h"

namespace hethub {
namespace {

constexpr int kRanks = 3;

// Collectives of many sizes, one after the other, until one fails.
void run_collectives(const RendezvousOptions& options, const RankProcess::Say& say) {
  const auto world = join_world(options);
  const auto backend = open_backend("cpu", {.threads = 1});
  const auto queue = backend->make_queue();
  DevicePort port({.messenger = world.get(), .backend = backend.get(), .queue = queue.get()});
  std::vector<int> ranks(kRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  Communicator group({.port = &port, .ranks = ranks, .id = 1});
  const auto data = backend->allocate(4 << 20);
  // Said before the world is left, which takes the time of a goodbye.
  RankProcess::said_of(say, [&] {
    for (int call = 0;; ++call) {
      for (const std::int64_t count : {100, 10'000, 1'000'000}) {
        group.start({.count = count}, {data.get(), 0, 4 * count}).wait(after_seconds(60));
      }
      if (call == 0) say("running");
    }
  });
}

// HETHUB_KILLS=200 for more of them.
int kills_wanted() {
  const char* wanted = std::getenv("HETHUB_KILLS");
  return wanted == nullptr ? 10 : std::atoi(wanted);
}

TEST(Kills, every_survivor_stops_and_names_the_rank_that_was_killed) {
  std::mt19937 random(1);
  std::array<double, 2> slowest = {};
  for (int kill = 0; kill < kills_wanted(); ++kill) {
    const bool tcp = kill % 2 == 1;
    const int port = free_port();
    std::vector<RankProcess> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([=](const RankProcess::Say& say) {
        run_collectives({.rank = rank,
                         .world_size = kRanks,
                         .master_address = "127.0.0.1",
                         .master_port = port,
                         .secret = "s",
                         .transports = {.shm = !tcp}},
                        say);
      });
    }
    for (RankProcess& rank : ranks) {
      ASSERT_TRUE(rank.await("running")) << rank.said();
    }
    const auto victim = static_cast<std::size_t>(random() % kRanks);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    const double begin = seconds_now();
    ::kill(ranks[victim].pid(), SIGKILL);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::string said = ranks[rank].all();
      if (rank == victim) continue;
      const std::string named = said.substr(0, said.find(" (host "));
      EXPECT_TRUE(named.ends_with(text("rank ", victim)))
          << "kill " << kill << " of rank " << victim << ": " << said;
      double& worst = slowest[tcp ? 1 : 0];
      worst = std::max(worst, ranks[rank].error_seconds() - begin);
    }
  }
  std::cout << "slowest survivor: shm " << slowest[0] << " s, tcp " << slowest[1] << " s\n";
}

}  // namespace
}  // namespace hethub
