#include "hethub/comm/communicator.h"

#include <numeric>

#include <gtest/gtest.h>

#include "hethub/collective/generators.h"
#include "tests/comm/local_world.h"
#include "tests/ranks/slow_rank.h"

namespace hethub {
namespace {

constexpr double kSeconds = 60;

/// How the ranks of a test differ.
struct Case {
  Transport transport = Transport::kShm;
  bool staged_even = false;  ///< ranks 0, 2, ... have memory that the CPU cannot address
  bool staged_odd = false;
};

class EveryRoute : public ::testing::TestWithParam<Case> {
 protected:
  using Body = std::function<void(Rank&, int rank)>;

  void on_ranks(int world_size, const Body& body) {
    const auto world = local_world(world_size, GetParam().transport);
    on_all_ranks(world_size, [&](int rank) {
      const bool staged = rank % 2 == 0 ? GetParam().staged_even : GetParam().staged_odd;
      Rank mine(*world[rank], !staged);
      body(mine, rank);
    });
  }
};

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

float value_at(int rank, std::int64_t i) {
  return 1.0F / static_cast<float>(rank + 3) + 1e-3F * static_cast<float>(i % 977 + rank * rank);
}

std::vector<float> values_of(int rank, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(value_at(rank, i));
  }
  return values;
}

// In the order that the ring documents, so that the bits must be equal.
float sum_at(int world_size, int chunk, std::int64_t i) {
  float sum = value_at((chunk + 1) % world_size, i);
  for (int further = 2; further <= world_size; ++further) {
    sum = value_at((chunk + further) % world_size, i) + sum;
  }
  return sum;
}

ChunkTable uneven(int chunks) {
  ChunkTable table;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    table.push_back(chunk % 3 == 1 ? 0 : 4001 * chunk + 1);
  }
  return table;
}

TEST_P(EveryRoute, all_reduce_of_uneven_chunks_leaves_the_same_bits_everywhere_each_time) {
  for (const int world_size : {1, 2, 3, 4}) {
    const ChunkTable table = uneven(world_size);
    const auto count = std::accumulate(table.begin(), table.end(), std::int64_t{0});
    on_ranks(world_size, [&](Rank& rank, int number) {
      Communicator group({.port = &rank.port, .ranks = first_ranks(world_size), .id = 1});
      const auto sum = group.prepare(ring_all_reduce(world_size), table, DType::kF32);
      const auto scratch = rank.backend.allocate(std::max<std::int64_t>(sum->scratch_bytes(), 256));
      for (int round = 0; round < 3; ++round) {
        const auto data = rank.floats(values_of(number, count));
        group.run(*sum, Rank::view(*data), Rank::view(*scratch), after_seconds(kSeconds));
        const std::vector<float> found = rank.read(*data);
        std::int64_t i = 0;
        for (int chunk = 0; chunk < world_size; ++chunk) {
          for (const std::int64_t end = i + table[chunk]; i < end; ++i) {
            ASSERT_EQ(found[i], sum_at(world_size, chunk, i)) << chunk << ' ' << i;
          }
        }
      }
    });
  }
}

TEST_P(EveryRoute, reduce_scatter_then_all_gather_hands_out_the_owners_chunks) {
  constexpr int kRanks = 3;
  const ChunkTable table = {1001, 0, 5003};
  on_ranks(kRanks, [&](Rank& rank, int number) {
    // The group's order is not that of the world: member p is world rank order[p].
    const std::vector<int> order = {2, 0, 1};
    Communicator group({.port = &rank.port, .ranks = order, .id = 2});
    EXPECT_EQ(order[group.rank()], number);
    const auto scatter = group.prepare(ring_reduce_scatter(kRanks), table, DType::kF32);
    const auto gather = group.prepare(ring_all_gather(kRanks), table, DType::kF32);
    const auto scratch = rank.backend.allocate(scatter->scratch_bytes());
    const auto data = rank.floats(values_of(group.rank(), 6004));
    group.run(*scatter, Rank::view(*data), Rank::view(*scratch), after_seconds(kSeconds));
    group.run(*gather, Rank::view(*data), {}, after_seconds(kSeconds));
    const std::vector<float> found = rank.read(*data);
    for (std::int64_t i = 0; i < 6004; ++i) {
      ASSERT_EQ(found[i], sum_at(kRanks, i < 1001 ? 0 : 2, i)) << i;
    }
  });
}

TEST_P(EveryRoute, broadcast_copies_the_roots_bytes) {
  constexpr int kRanks = 4;
  on_ranks(kRanks, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = first_ranks(kRanks), .id = 3});
    const auto copy =
        group.prepare(tree_broadcast(kRanks, 2), even_chunks(9001, kRanks), DType::kF32);
    const auto data = rank.floats(values_of(number, 9001));
    group.run(*copy, Rank::view(*data), {}, after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*data), values_of(2, 9001));
  });
}

TEST_P(EveryRoute, what_a_stage_sends_is_what_its_queue_has_computed) {
  constexpr int kMessages = 12;
  constexpr std::int64_t kFloats = 20'001;
  on_ranks(2, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 4});
    const auto add = rank.backend.prepare({"add", DType::kF32, Accumulate{kFloats}});
    const auto total = rank.floats(values_of(number, kFloats));
    const auto one = rank.floats(std::vector<float>(kFloats, 1.0F));
    const auto arrived = rank.floats(std::vector<float>(kFloats, -1.0F));
    const View all = Rank::view(*total);
    for (int message = 0; message < kMessages; ++message) {
      if (number == 0) {
        // The queue still works when the message is handed over.
        rank.queue->run(*add, std::array{all, Rank::view(*one)}, std::array{all}, {});
        Request sent = group.send(1, 7, all);
        sent.wait(after_seconds(kSeconds));
      } else {
        Request received = group.recv(0, 7, Rank::view(*arrived));
        received.wait(after_seconds(kSeconds));
        // Work queued after the wait sees what arrived.
        rank.queue->copy(Rank::view(*arrived), all);
        EXPECT_EQ(rank.read(*total)[5], value_at(0, 5) + static_cast<float>(message + 1));
      }
    }
  });
}

TEST_P(EveryRoute, both_neighbours_can_send_first) {
  on_ranks(2, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {1, 0}, .id = 5});
    const int other = 1 - group.rank();
    const auto mine = rank.floats(values_of(number, 50'000));
    const auto theirs = rank.floats(std::vector<float>(50'000));
    Request sent = group.send(other, 1, Rank::view(*mine));
    Request received = group.recv(other, 1, Rank::view(*theirs));
    received.wait(after_seconds(kSeconds));
    sent.wait(after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*theirs), values_of(1 - number, 50'000));
  });
}

TEST_P(EveryRoute, test_ends_a_request_without_waiting) {
  on_ranks(2, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 5});
    const auto data = rank.floats(values_of(number, 30'000));
    Request request =
        number == 0 ? group.send(1, 1, Rank::view(*data)) : group.recv(0, 1, Rank::view(*data));
    const Deadline deadline = after_seconds(kSeconds);
    while (!request.test()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    EXPECT_EQ(rank.read(*data), values_of(0, 30'000));
  });
}

TEST_P(EveryRoute, groups_overlap_and_host_values_are_added_in_one_order) {
  constexpr int kRanks = 4;
  on_ranks(kRanks, [&](Rank& rank, int number) {
    Communicator all({.port = &rank.port, .ranks = {3, 1, 0, 2}, .id = 6});
    Communicator half({.port = &rank.port,
                       .ranks = number % 2 == 0 ? std::vector{0, 2} : std::vector{3, 1},
                       .id = 7 + number % 2});
    for (int round = 0; round < 20; ++round) {
      std::vector<double> values = {0.1 * number, 1e16 * (number % 2), 1.0};
      all.all_reduce_host(values, after_seconds(kSeconds));
      EXPECT_EQ(values[0], ((0.1 * 3 + 0.1 * 1) + 0.1 * 0) + 0.1 * 2);
      EXPECT_EQ(values[2], 4.0);
      std::vector<double> pair = {static_cast<double>(number)};
      half.all_reduce_host(pair, after_seconds(kSeconds));
      EXPECT_EQ(pair[0], number % 2 == 0 ? 2 : 4);
      std::vector<int> numbers(kRanks);
      all.all_gather_host(std::as_bytes(std::span(&number, 1)),
                          std::as_writable_bytes(std::span(numbers)), after_seconds(kSeconds));
      EXPECT_EQ(numbers, (std::vector{3, 1, 0, 2}));
      all.barrier(after_seconds(kSeconds));
    }
  });
}

TEST_P(EveryRoute, members_that_call_different_collectives_are_told_by_both_names) {
  on_ranks(2, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 9});
    const auto sum = group.prepare(ring_all_reduce(2), {512, 512}, DType::kF32);
    const auto gather = group.prepare(ring_all_gather(2), {512, 512}, DType::kF32);
    const auto data = rank.floats(values_of(number, 1024));
    const auto scratch = rank.backend.allocate(sum->scratch_bytes());
    try {
      group.run(number == 0 ? *sum : *gather, Rank::view(*data), Rank::view(*scratch),
                after_seconds(kSeconds));
      ADD_FAILURE() << "no error on rank " << number;
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("ring_all_reduce f32 1024"), std::string::npos) << said;
      EXPECT_NE(said.find("ring_all_gather f32 1024"), std::string::npos) << said;
    }
  });
}

TEST_P(EveryRoute, a_member_that_does_not_come_ends_the_collective_at_its_deadline) {
  on_ranks(3, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2}, .id = 9});
    if (number == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return;
    }
    try {
      group.barrier(after_seconds(0.2));
      ADD_FAILURE() << "no error on rank " << number;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout) << error.what();
      EXPECT_NE(std::string(error.what()).find("dissemination_barrier #0"), std::string::npos);
    }
  });
}

TEST(Communicator, a_rank_outside_the_group_or_named_twice_is_refused) {
  const auto world = local_world(2, Transport::kShm);
  Rank rank(*world[0], false);
  EXPECT_THROW(Communicator({.port = &rank.port, .ranks = {1}, .id = 0}), Error);
  EXPECT_THROW(Communicator({.port = &rank.port, .ranks = {0, 1, 0}, .id = 0}), Error);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Transport transport : present({Transport::kShm, Transport::kTcp, Transport::kUcx})) {
    all.push_back({.transport = transport});
  }
  all.push_back({.transport = Transport::kShm, .staged_even = true, .staged_odd = true});
  all.push_back({.transport = Transport::kTcp, .staged_odd = true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Routes, EveryRoute, ::testing::ValuesIn(cases()), [](const auto& info) {
  const auto route = [](bool staged) { return staged ? "staged" : "direct"; };
  return text(name_of(info.param.transport), '_', route(info.param.staged_even), '_',
              route(info.param.staged_odd));
});

}  // namespace
}  // namespace hethub
