#include "hethub/comm/messenger.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/comm/errors.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

using Bytes = std::vector<std::byte>;
constexpr Operation kTest = {.name = "test"};

Bytes pattern(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

// Every law below holds for every transport: a new one joins by one line at the end of the file.
class EveryTransport : public ::testing::TestWithParam<Transport> {};

TEST_P(EveryTransport, delivers_messages_of_any_length_unchanged) {
  const auto world = local_world(2, GetParam());
  unsigned seed = 0;
  for (const std::size_t size :
       {0UL, 1UL, 7UL, 40UL, 4095UL, 4096UL, 8192UL, 8193UL, 65537UL, 300'001UL, 3'000'000UL}) {
    const Bytes sent = pattern(size, ++seed);
    Bytes received(size);
    const Handle send = world[0]->post_send(1, {.match = 5}, sent);
    const Handle recv = world[1]->post_recv(0, {.match = 5}, received);
    world[1]->wait(recv, after_seconds(20), kTest);
    world[0]->wait(send, after_seconds(20), kTest);
    ASSERT_EQ(received, sent) << size;
  }
}

TEST_P(EveryTransport, a_send_does_not_wait_for_its_receive) {
  const auto world = local_world(2, GetParam());
  const Bytes small = pattern(100, 1);
  const Bytes large = pattern(1'000'000, 2);
  Bytes got_small(small.size());
  Bytes got_large(large.size());
  const Handle first = world[0]->post_send(1, {.match = 1}, large);
  const Handle second = world[0]->post_send(1, {.match = 2}, small);
  // The large one, still unasked for, does not stand in the way of the small one.
  world[1]->wait(world[1]->post_recv(0, {.match = 2}, got_small), after_seconds(20), kTest);
  world[0]->wait(second, after_seconds(20), kTest);
  EXPECT_FALSE(world[0]->test(first, kTest));
  world[1]->wait(world[1]->post_recv(0, {.match = 1}, got_large), after_seconds(20), kTest);
  world[0]->wait(first, after_seconds(20), kTest);
  EXPECT_EQ(got_small, small);
  EXPECT_EQ(got_large, large);
}

TEST_P(EveryTransport, messages_of_one_tag_keep_their_order_whatever_their_size) {
  const auto world = local_world(2, GetParam());
  constexpr int kMessages = 300;
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  for (int index = 0; index < kMessages; ++index) {
    sent.push_back(pattern(index % 7 == 0 ? 20'000 : static_cast<std::size_t>(index), index));
    received.emplace_back(sent.back().size());
  }
  std::jthread sender([&] {
    std::vector<Handle> handles;
    for (const Bytes& message : sent) {
      handles.push_back(world[0]->post_send(1, {.match = 9}, message));
    }
    for (const Handle handle : handles) {
      world[0]->wait(handle, after_seconds(20), kTest);
    }
  });
  for (Bytes& message : received) {
    world[1]->wait(world[1]->post_recv(0, {.match = 9}, message), after_seconds(20), kTest);
  }
  sender.join();
  EXPECT_EQ(received, sent);
}

TEST_P(EveryTransport, both_directions_and_many_ranks_at_once_do_not_block) {
  constexpr int kRanks = 4;
  const auto world = local_world(kRanks, GetParam());
  const std::size_t size = 200'000;
  on_all_ranks(kRanks, [&](int rank) {
    for (int round = 0; round < 10; ++round) {
      std::vector<Bytes> sent(kRanks);
      std::vector<Bytes> got(kRanks, Bytes(size));
      std::vector<Handle> handles;
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        sent[peer] = pattern(size, 100 * rank + peer + round);
        handles.push_back(world[rank]->post_send(peer, {.match = 3}, sent[peer]));
      }
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer != rank) handles.push_back(world[rank]->post_recv(peer, {.match = 3}, got[peer]));
      }
      for (const Handle handle : handles) {
        world[rank]->wait(handle, after_seconds(30), kTest);
      }
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        EXPECT_EQ(got[peer], pattern(size, 100 * peer + rank + round));
      }
    }
  });
}

TEST_P(EveryTransport, a_message_that_does_not_come_ends_at_the_deadline_and_is_named) {
  const auto world = local_world(2, GetParam());
  Bytes memory(10);
  const Handle handle = world[1]->post_recv(0, {.match = 1}, memory);
  const auto begin = std::chrono::steady_clock::now();
  const std::string said = error_text(
      [&] { world[1]->wait(handle, after_seconds(0.1), {.name = "all_reduce", .number = 7}); },
      ErrorCode::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_NE(said.find("all_reduce #7"), std::string::npos) << said;
  EXPECT_NE(said.find("rank 0 (host node0)"), std::string::npos) << said;
  EXPECT_NE(said.find("0 of 10 bytes"), std::string::npos) << said;
}

TEST_P(EveryTransport, the_first_failure_is_told_to_all_ranks) {
  const auto world = local_world(3, GetParam());
  Bytes memory(10);
  const Handle waits = world[2]->post_recv(1, {.match = 1}, memory);
  world[0]->abort(Error(ErrorCode::kNumerical, {.what = "loss of rank 0",
                                                .found = "nan",
                                                .expected = "a number",
                                                .fix = "lower the learning rate"}));
  const std::string said =
      error_text([&] { world[2]->wait(waits, after_seconds(20), kTest); }, ErrorCode::kNumerical);
  EXPECT_NE(said.find("loss of rank 0, found nan, expected a number; lower the learning rate"),
            std::string::npos)
      << said;
  const std::string later =
      error_text([&] { world[0]->post_send(1, {.match = 4}, memory); }, ErrorCode::kNumerical);
  EXPECT_NE(later.find("loss of rank 0"), std::string::npos);
}

TEST_P(EveryTransport, a_peer_that_leaves_while_it_is_needed_is_named) {
  auto world = local_world(2, GetParam());
  Bytes memory(10);
  const Handle waits = world[0]->post_recv(1, {.match = 1}, memory);
  world[1].reset();
  const std::string said =
      error_text([&] { world[0]->wait(waits, after_seconds(20), kTest); }, ErrorCode::kUnavailable);
  EXPECT_NE(said.find("rank 1 (host node1)"), std::string::npos) << said;
}

TEST_P(EveryTransport, what_was_sent_before_leaving_still_arrives) {
  auto world = local_world(2, GetParam());
  const Bytes sent = pattern(5000, 1);
  Bytes received(sent.size());
  world[1]->wait(world[1]->post_send(0, {.match = 1}, sent), after_seconds(20), kTest);
  world[1].reset();
  world[0]->wait(world[0]->post_recv(1, {.match = 1}, received), after_seconds(20), kTest);
  EXPECT_EQ(received, sent);
}

TEST_P(EveryTransport, different_operations_on_two_ranks_are_told_by_both_names) {
  const Bytes sent(8192);  // outlives rank 0, which may not have heard of the failure
  Bytes memory(4096);
  const auto world = local_world(2, GetParam());
  const Tag sum = collective_tag(0, 7, check_of("ring_all_reduce", DType::kF32, 2048));
  const Tag gather = collective_tag(0, 7, check_of("ring_all_gather", DType::kF32, 1024));
  world[0]->post_send(1, sum, sent);
  std::string said = error_text(
      [&] { world[1]->wait(world[1]->post_recv(0, gather, memory), after_seconds(20), kTest); },
      ErrorCode::kInvalidArgument);
  EXPECT_NE(said.find("ring_all_gather f32 1024 elements, 4096 bytes (rank 1)"), std::string::npos)
      << said;
  EXPECT_NE(said.find("ring_all_reduce f32 2048 elements, 8192 bytes (rank 0)"), std::string::npos)
      << said;
}

TEST_P(EveryTransport, a_cancelled_receive_leaves_its_memory_alone) {
  const auto world = local_world(2, GetParam());
  const Bytes sent = pattern(100'000, 1);
  Bytes cancelled(sent.size());
  const Handle handle = world[1]->post_recv(0, {.match = 1}, cancelled);
  world[1]->cancel(handle);
  EXPECT_TRUE(world[1]->test(handle, kTest));
  Bytes received(sent.size());
  const Handle send = world[0]->post_send(1, {.match = 1}, sent);
  world[1]->wait(world[1]->post_recv(0, {.match = 1}, received), after_seconds(20), kTest);
  world[0]->wait(send, after_seconds(20), kTest);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(cancelled, Bytes(sent.size()));
}

TEST_P(EveryTransport, a_cancelled_offer_ends_the_wait_of_its_receiver) {
  const auto world = local_world(2, GetParam());
  const Bytes sent(100'000);
  Bytes memory(sent.size());
  const Handle send = world[0]->post_send(1, {.match = 1}, sent);
  world[0]->cancel(send);
  error_text(
      [&] {
        world[1]->wait(world[1]->post_recv(0, {.match = 1}, memory), after_seconds(5), kTest);
      },
      ErrorCode::kUnavailable);
}

TEST_P(EveryTransport, more_unasked_messages_than_the_store_holds_wait_at_the_sender) {
  const auto world = local_world(2, GetParam());
  constexpr int kMessages = 400;  // the store holds 128
  const Bytes sent = pattern(2000, 1);
  std::vector<Handle> handles;
  for (int index = 0; index < kMessages; ++index) {
    handles.push_back(world[0]->post_send(1, {.match = 1}, sent));
  }
  Bytes received(sent.size());
  for (int index = 0; index < kMessages; ++index) {
    std::fill(received.begin(), received.end(), std::byte{0});
    world[1]->wait(world[1]->post_recv(0, {.match = 1}, received), after_seconds(20), kTest);
    ASSERT_EQ(received, sent);
  }
  for (const Handle handle : handles) {
    world[0]->wait(handle, after_seconds(20), kTest);
  }
}

double process_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST_P(EveryTransport, a_rank_that_waits_burns_no_core) {
  const auto world = local_world(2, GetParam());
  Bytes memory(10);
  const Handle handle = world[1]->post_recv(0, {.match = 1}, memory);
  const double before = process_seconds();
  EXPECT_THROW(world[1]->wait(handle, after_seconds(0.5), kTest), Error);
  EXPECT_LT(process_seconds() - before, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryTransport,
                         ::testing::ValuesIn(present({Transport::kShm, Transport::kRings,
                                                      Transport::kTcp, Transport::kUcx})),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace hethub
