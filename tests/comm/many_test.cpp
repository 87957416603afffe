// Many light ranks on one host: they meet, come to a barrier, pass messages to their neighbours,
// live through some signs of life, and one dies. HETHUB_MANY says how many (default 40).

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "hethub/comm/tcp/socket.h"
#include "tests/comm/errors.h"
#include "tests/comm/rank_process.h"

namespace hethub {
namespace {

int ranks_wanted() {
  const char* wanted = std::getenv("HETHUB_MANY");
  return wanted == nullptr ? 40 : std::atoi(wanted);
}

// Memory of this process, of which shared pages count in part.
long pss_kib() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    long kib = 0;
    if (word == "Pss:" && rollup >> kib) return kib;
  }
  return 0;
}

RendezvousOptions options_of(int rank, int world_size, int port) {
  return {.rank = rank,
          .world_size = world_size,
          .master_address = "127.0.0.1",
          .master_port = port,
          .secret = "s",
          .timeout_s = 60 + world_size / 4.0,
          .pairs = [world_size](int low, int high) {
            return high - low == 1 || high - low == world_size - 1;
          }};
}

constexpr double kSeconds = 120;

// To the next rank and from the one before.
void greet_neighbours(Messenger& world) {
  const int size = world.world_size();
  const int mine = world.rank();
  int heard = -1;
  const int before = (mine + size - 1) % size;
  const Handle received =
      world.post_recv(before, {.match = 1}, std::as_writable_bytes(std::span(&heard, 1)));
  const Handle sent =
      world.post_send((mine + 1) % size, {.match = 1}, std::as_bytes(std::span(&mine, 1)));
  world.wait(received, after_seconds(kSeconds), {.name = "greeting"});
  world.wait(sent, after_seconds(kSeconds), {.name = "greeting"});
  if (heard != before) throw std::runtime_error("heard another rank");
}

void live(int rank, int world_size, int port, int victim, const RankProcess::Say& say) {
  const long before = pss_kib();
  const auto world = join_world(options_of(rank, world_size, port));
  world->control()->barrier(after_seconds(kSeconds));
  greet_neighbours(*world);
  say(text("grew ", pss_kib() - before));
  RankProcess::said_of(say, [&] {
    // The victim never comes to it.
    if (rank == victim) std::this_thread::sleep_for(std::chrono::hours(1));
    world->control()->barrier(after_seconds(kSeconds));
  });
}

long grown_kib(const RankProcess& rank) {
  return std::stol(rank.said().substr(rank.said().find("grew ") + 5));
}

TEST(Many, light_ranks_meet_live_and_learn_of_one_death) {
  const int world_size = ranks_wanted();
  const int victim = world_size / 2;
  const int port = free_port();
  const double begin = seconds_now();
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back(
        [=](const RankProcess::Say& say) { live(rank, world_size, port, victim, say); });
  }
  const double started = seconds_now();
  long most = 0;
  long all = 0;
  for (RankProcess& rank : ranks) {
    ASSERT_TRUE(rank.await("grew ")) << rank.said();
    most = std::max(most, grown_kib(rank));
    all += grown_kib(rank);
  }
  const double met = seconds_now();
  // Some signs of life: nobody is suspect.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const double killed = seconds_now();
  ::kill(ranks[static_cast<std::size_t>(victim)].pid(), SIGKILL);
  double last = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank == victim) continue;
    RankProcess& survivor = ranks[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(survivor.await("error ")) << "rank " << rank << ": " << survivor.said();
    expect_contains(survivor.said(), text("rank ", victim, " (host "));
    last = std::max(last, survivor.error_seconds() - killed);
  }
  std::cout << world_size << " ranks: started in " << started - begin
            << " s, met, came to a barrier "
            << "and greeted in " << met - started << " s more; memory a rank " << all / world_size
            << " KiB, most " << most << " KiB (rank 0 " << grown_kib(ranks[0])
            << "); all knew of the death after " << last << " s\n";
  // 2 neighbours, and what a rank holds of each other rank.
  EXPECT_LT(all / world_size, 2500 + 2 * world_size);
}

}  // namespace
}  // namespace hethub
