// Strangers at a running rendezvous: garbage, scanners, wrong secrets and versions, callers that
// say nothing, or little at a time, or too much. HETHUB_STRANGERS says how many (default 1,000).

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "hethub/comm/greeting.h"
#include "hethub/comm/tcp/socket.h"
#include "tests/comm/rank_process.h"

namespace hethub {
namespace {

constexpr int kRanks = 3;
// What strangers may make a rank hold, and the world of three ranks, in memory.
constexpr long kMostKib = 8 * 1024;

int strangers_wanted() {
  const char* wanted = std::getenv("HETHUB_STRANGERS");
  return wanted == nullptr ? 1000 : std::atoi(wanted);
}

RendezvousOptions options_of(int rank, int port) {
  return {.rank = rank,
          .world_size = kRanks,
          .master_address = "127.0.0.1",
          .master_port = port,
          .secret = "only the ranks know",
          .plan_hash = "abc",
          .timeout_s = 60 + strangers_wanted() / 50.0,
          .transports = {.shm = false}};
}

// The most memory that this process has had.
long peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib;
  }
  return 0;
}

class Stranger {
 public:
  Stranger(int port, unsigned seed) : port_(port), random_(seed) {}

  /// One more call, of a kind that goes on from the last.
  void call() {
    try {
      open_.push_back(connect_to("127.0.0.1", port_, after_seconds(2)));
      say(open_.back().get());
    } catch (const Error&) {
      // Refused, or pushed out by another stranger: as it should be.
    }
    if (open_.size() > 150) open_.erase(open_.begin());
  }

 private:
  void say(int socket) {
    switch (kind_++ % 8) {
      case 0:  // says nothing
        return;
      case 1:
        return scan(socket);
      case 2:
        return send(socket, garbage(random_() % 3000));
      case 3:
        return pretend(socket, {.secret = "a guess"});
      case 4:
        return pretend(socket, {.secret = "only the ranks know", .version = 99});
      case 5:
        return send(socket, hello(sizeof(Hello)));
      case 6:  // says little
        return send(socket, hello(random_() % sizeof(Hello)));
      case 7:
        return send(socket, garbage(1 << 20));
    }
  }

  // Ends the connection as port scanners do.
  static void scan(int socket) {
    const linger reset = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    ::shutdown(socket, SHUT_RDWR);
  }

  static void pretend(int socket, const Credentials& credentials) {
    Introduction said{.rank = 1, .world_size = kRanks};
    set_field(said.plan_hash, "abc");
    introduce(socket, credentials, said, "rank 0", after_seconds(2));
    ADD_FAILURE() << "a stranger was let in";
  }

  // One that begins as it should, and proves nothing.
  std::vector<std::byte> hello(std::size_t size) {
    std::vector<std::byte> bytes = garbage(size);
    Hello start{.version = kProtocolVersion};
    std::copy_n(reinterpret_cast<const std::byte*>(&start), std::min<std::size_t>(size, 16),
                bytes.begin());
    return bytes;
  }

  std::vector<std::byte> garbage(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random_());
    }
    return bytes;
  }

  static void send(int socket, const std::vector<std::byte>& bytes) {
    static_cast<void>(!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  int port_;
  std::mt19937 random_;
  unsigned kind_ = 0;
  std::vector<Descriptor> open_ = {};
};

RankProcess start_rank(int rank, int port, int wait_for) {
  return RankProcess([=](const RankProcess::Say& say) {
    char told = 0;
    if (wait_for >= 0) static_cast<void>(!::read(wait_for, &told, 1));
    const long before = peak_kib();
    pass_messages(options_of(rank, port), {.bytes = 100'000, .rounds = 50}, say);
    say(text("grew by ", peak_kib() - before, " KiB"));
  });
}

TEST(Strangers, do_not_crash_or_hold_up_a_rendezvous_nor_fill_its_memory) {
  const int port = free_port();
  int go[2] = {};
  ASSERT_EQ(::pipe(go), 0);
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(start_rank(rank, port, rank == 2 ? go[0] : -1));
  }
  std::atomic<int> calls = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    threads.emplace_back([&, seed] {
      Stranger stranger(port, seed);
      while (!done) {
        stranger.call();
        ++calls;
      }
    });
  }
  while (calls < strangers_wanted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const double begin = seconds_now();
  ASSERT_EQ(::write(go[1], "g", 1), 1);
  for (RankProcess& rank : ranks) {
    EXPECT_TRUE(rank.await("met")) << rank.said();
  }
  std::cout << calls << " calls by strangers; the last rank had met the others "
            << seconds_now() - begin << " s after it came\n";
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (RankProcess& rank : ranks) {
    EXPECT_NE(rank.all().find("done"), std::string::npos) << rank.said();
    EXPECT_EQ(rank.said().find("error"), std::string::npos) << rank.said();
    const auto grew = rank.said().find("grew by ");
    ASSERT_NE(grew, std::string::npos);
    EXPECT_LT(std::stol(rank.said().substr(grew + 8)), kMostKib) << rank.said();
  }
  std::cout << "rank 0 " << ranks[0].said().substr(ranks[0].said().find("grew by"));
}

}  // namespace
}  // namespace hethub
