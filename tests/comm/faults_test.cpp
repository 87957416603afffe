// What a network and a host do to a job: partitions, slow and late links, ranks that stop.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mount.h>

#include "hethub/comm/tcp/socket.h"
#include "tests/comm/errors.h"
#include "tests/comm/network.h"
#include "tests/comm/rank_process.h"

namespace hethub {
namespace {

constexpr int kRanks = 3;
constexpr int kForEver = 1'000'000'000;

RendezvousOptions options_of(int rank, double peer_timeout_s) {
  return {.rank = rank,
          .world_size = kRanks,
          .master_address = Network::address_of(0),
          .master_port = 29'999,
          .secret = "s",
          .timeout_s = 60,
          .peer_timeout_s = peer_timeout_s,
          .transports = {.shm = false}};
}

class InNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Network::missing().empty()) GTEST_SKIP() << Network::missing();
  }

  void start(int rank, double peer_timeout_s, const RingOfMessages& ring) {
    ranks_.push_back(network_.start(rank, [=](const RankProcess::Say& say) {
      pass_messages(options_of(rank, peer_timeout_s), ring, say);
    }));
  }

  void start_all(double peer_timeout_s, const RingOfMessages& ring) {
    for (int rank = 0; rank < kRanks; ++rank) {
      start(rank, peer_timeout_s, ring);
    }
    for (RankProcess& rank : ranks_) {
      ASSERT_TRUE(rank.await("met")) << rank.said();
    }
  }

  void expect_all_done() {
    for (RankProcess& rank : ranks_) {
      EXPECT_NE(rank.all().find("done"), std::string::npos) << rank.said();
      EXPECT_EQ(rank.said().find("error"), std::string::npos) << rank.said();
    }
  }

  Network network_;
  std::vector<RankProcess> ranks_;
};

TEST_F(InNetwork, a_rank_cut_off_in_silence_is_suspect_then_given_up_and_named) {
  start_all(3, {.bytes = 100'000, .rounds = kForEver});
  const double begin = seconds_now();
  network_.cut_off(1);
  for (const int survivor : {0, 2}) {
    RankProcess& rank = ranks_[static_cast<std::size_t>(survivor)];
    ASSERT_TRUE(rank.await("notice rank 1 (host ")) << rank.said();
    std::cout << "rank " << survivor << ": suspect after " << seconds_now() - begin << " s, ";
    const std::string said = rank.all();
    std::cout << "failed after " << rank.error_seconds() - begin << " s\n";
    expect_contains(said, "is suspect: no sign of life for 2.");
    const std::size_t error = said.find("\nerror ");
    ASSERT_NE(error, std::string::npos) << said;
    EXPECT_TRUE(said.substr(0, said.find(" (host ", error)).ends_with("rank 1")) << said;
  }
  // It cannot know who is cut off, and ends too.
  expect_contains(ranks_[1].all(), "error ");
}

TEST_F(InNetwork, a_line_that_is_down_for_a_moment_is_no_failure) {
  start_all(30, {.bytes = 100'000, .rounds = 4'000});
  network_.cut_off(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  network_.heal(1);
  expect_all_done();
}

TEST_F(InNetwork, a_slow_line_is_no_failure) {
  if (!Network::can_slow_down()) GTEST_SKIP() << "this kernel has no tbf";
  start_all(2, {.bytes = 8 << 20, .rounds = 4});
  network_.slow_down(1, "100mbit");
  expect_all_done();
  for (const RankProcess& rank : ranks_) {
    EXPECT_EQ(rank.said().find("notice"), std::string::npos) << rank.said();
  }
}

TEST_F(InNetwork, a_rank_whose_network_comes_late_is_waited_for) {
  start(0, 30, {.bytes = 1000, .rounds = 3});
  start(2, 30, {.bytes = 1000, .rounds = 3});
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  start(1, 30, {.bytes = 1000, .rounds = 3});
  expect_all_done();
}

TEST_F(InNetwork, a_name_of_rank_0_that_is_not_known_yet_is_asked_for_again) {
  const std::string hosts = text(testing::TempDir(), "hosts-", ::getpid());
  std::ofstream(hosts) << "127.0.0.1 localhost\n";
  start(0, 30, {.bytes = 1000, .rounds = 3});
  for (const int rank : {1, 2}) {
    ranks_.push_back(network_.start(rank, [=](const RankProcess::Say& say) {
      // Mounts are this process's own.
      const bool named = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
      say(named ? "named" : "unnamed");
      RendezvousOptions options = options_of(rank, 30);
      options.master_address = "rank-zero";
      pass_messages(options, {.bytes = 1000, .rounds = 3}, say);
    }));
    ASSERT_TRUE(ranks_.back().await("named")) << ranks_.back().said();
    if (ranks_.back().said().find("unnamed") != std::string::npos) {
      GTEST_SKIP() << "no mounts are permitted here";
    }
    ASSERT_TRUE(ranks_.back().await("notice host 'rank-zero' has no address yet"))
        << ranks_.back().said();
  }
  std::ofstream(hosts) << "127.0.0.1 localhost\n" << Network::address_of(0) << " rank-zero\n";
  expect_all_done();
  std::filesystem::remove(hosts);
}

// Two hosts whose own /etc/hosts has their name at 127.0.1.1, as Debian's installer writes it.
TEST_F(InNetwork, a_master_whose_own_name_is_a_loopback_address_is_met_at_its_interface) {
  const std::string hosts = text(testing::TempDir(), "own-hosts-", ::getpid());
  std::ofstream(hosts) << "127.0.0.1 localhost\n127.0.1.1 rank-zero\n";
  const std::string others = hosts + "-others";
  std::ofstream(others) << "127.0.0.1 localhost\n" << Network::address_of(0) << " rank-zero\n";
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string file = rank == 0 ? hosts : others;
    ranks_.push_back(network_.start(rank, [=](const RankProcess::Say& say) {
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount(file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0) {
        say("unnamed");
        return;
      }
      RendezvousOptions options = options_of(rank, 30);
      options.master_address = "rank-zero";
      pass_messages(options, {.bytes = 1000, .rounds = 3}, say);
    }));
  }
  if (ranks_[0].all().find("unnamed") != std::string::npos) {
    GTEST_SKIP() << "no mounts are permitted here";
  }
  expect_all_done();
  std::filesystem::remove(hosts);
  std::filesystem::remove(others);
}

// Needs no namespace.
TEST(Stopped, a_rank_past_its_deadline_is_named_by_all_others) {
  const int port = free_port();
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([=](const RankProcess::Say& say) {
      RendezvousOptions options = options_of(rank, 30);
      options.master_address = "127.0.0.1";
      options.master_port = port;
      pass_messages(options, {.bytes = 100'000, .rounds = kForEver, .deadline_s = 4}, say);
    });
  }
  for (RankProcess& rank : ranks) {
    ASSERT_TRUE(rank.await("met")) << rank.said();
  }
  ::kill(ranks[1].pid(), SIGSTOP);
  for (const std::size_t survivor : {0U, 2U}) {
    const std::string said = ranks[survivor].all();
    expect_contains(said, "notice rank 1 (host ");
    expect_contains(said, "; rank 1 (host ");
    expect_contains(said, "silent for ");
  }
}

}  // namespace
}  // namespace hethub
