#include <array>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/comm/communicator.h"
#include "tests/comm/local_world.h"
#include "tests/ranks/slow_rank.h"

namespace hethub {
namespace {

constexpr double kSeconds = 60;

class Requests : public ::testing::TestWithParam<bool> {
 protected:
  void on_ranks(int world_size, const std::function<void(Rank&, int rank)>& body) {
    const auto world = local_world(world_size, Transport::kShm, 65536);
    on_all_ranks(world_size, [&](int rank) {
      Rank mine(*world[rank], GetParam());
      body(mine, rank);
    });
  }
};

std::vector<float> filled(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

TEST_P(Requests, calls_under_way_at_once_may_be_waited_for_in_any_order) {
  constexpr std::int64_t kCount = 30'001;
  on_ranks(3, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2}, .id = 1});
    const std::vector<int> order = {2, 1, 0};
    Communicator backwards({.port = &rank.port, .ranks = order, .id = 2});
    const auto give = static_cast<float>(number + 1);
    const std::array buffers = {rank.floats(kCount, give), rank.floats(kCount, give),
                                rank.floats(kCount, give), rank.floats(kCount, -1)};
    const int next = (number + 1) % 3;
    const int previous = (number + 2) % 3;
    const auto given = rank.floats(kCount, give);
    const Collective sum{.count = kCount};
    std::array<Request, 3> sums = {
        group.start(sum, Rank::view(*buffers[0])), backwards.start(sum, Rank::view(*buffers[1])),
        group.start(sum, Rank::view(*buffers[2])),  // as the first, which still runs
    };
    Request received = group.recv(previous, 9, Rank::view(*buffers[3]));
    Request sent = group.send(next, 9, Rank::view(*given));
    if (number == 0) received.wait(after_seconds(kSeconds));
    for (int turn = 0; turn < 3; ++turn) {
      sums[(turn + number) % 3].wait(after_seconds(kSeconds));
    }
    sent.wait(after_seconds(kSeconds));
    received.wait(after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*buffers[3]), filled(kCount, static_cast<float>(previous + 1)));
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(rank.read(*buffers[call]), filled(kCount, 6)) << call;
    }
  });
}

TEST_P(Requests, a_collective_can_be_tested_until_it_has_ended) {
  on_ranks(4, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2, 3}, .id = 1});
    const auto data = rank.floats(70'001, static_cast<float>(number));
    Request request = group.start({.count = 70'001}, Rank::view(*data));
    const Deadline deadline = after_seconds(kSeconds);
    while (!request.test()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    EXPECT_EQ(rank.read(*data), filled(70'001, 6));
  });
}

TEST_P(Requests, a_batch_posts_all_its_messages_before_any_is_waited_for) {
  on_ranks(2, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 1});
    const int other = 1 - number;
    const auto first = rank.floats(50'000, static_cast<float>(number));
    const auto second = rank.floats(3, static_cast<float>(10 + number));
    const auto got_first = rank.floats(50'000, -1);
    const auto got_second = rank.floats(3, -1);
    const std::array<PointToPoint, 4> batch = {{
        {.sends = true, .peer = other, .tag = 1, .view = Rank::view(*first)},
        {.sends = true, .peer = other, .tag = 2, .view = Rank::view(*second)},
        {.sends = false, .peer = other, .tag = 2, .view = Rank::view(*got_second)},
        {.sends = false, .peer = other, .tag = 1, .view = Rank::view(*got_first)},
    }};
    std::array<Request, 4> requests;
    group.start_batch(batch, requests);
    wait_all(requests, after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*got_first), filled(50'000, static_cast<float>(other)));
    EXPECT_EQ(rank.read(*got_second), filled(3, static_cast<float>(10 + other)));
  });
}

TEST_P(Requests, groups_nest) {
  on_ranks(4, [&](Rank& rank, int number) {
    Communicator all({.port = &rank.port, .ranks = {3, 1, 0, 2}, .id = 1});
    // Positions 1, 2 and 3 of the group are world ranks 1, 0 and 2; of these, the last two.
    const auto data = rank.floats(999, static_cast<float>(number + 1));
    if (number != 3) {
      Communicator three(all.subgroup(std::array{1, 2, 3}, 2));
      EXPECT_EQ(three.world_rank(0), 1);
      if (number != 1) {
        Communicator two(three.subgroup(std::array{1, 2}, 3));
        two.start({.count = 999}, Rank::view(*data)).wait(after_seconds(kSeconds));
        EXPECT_EQ(rank.read(*data), filled(999, 1 + 3));
      }
      three.start({.count = 999}, Rank::view(*data)).wait(after_seconds(kSeconds));
      EXPECT_EQ(rank.read(*data), filled(999, 4 + 4 + 2));
    }
    all.start({.count = 999}, Rank::view(*data)).wait(after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*data), filled(999, 3 * 10 + 4));
  });
}

TEST_P(Requests, an_input_is_copied_to_its_place) {
  on_ranks(3, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2}, .id = 1});
    const auto mine = rank.floats(5, static_cast<float>(number));
    const auto all = rank.floats(15, -1);
    group.start({.op = CollectiveOp::kAllGather, .count = 15}, Rank::view(*all), Rank::view(*mine))
        .wait(after_seconds(kSeconds));
    std::vector<float> expected = filled(5, 0);
    for (const float value : {1.0F, 2.0F}) {
      expected.insert(expected.end(), 5, value);
    }
    EXPECT_EQ(rank.read(*all), expected);
    const auto sum = rank.floats(5, -1);
    group.start({.count = 5}, Rank::view(*sum), Rank::view(*mine)).wait(after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*sum), filled(5, 3));
    EXPECT_EQ(rank.read(*mine), filled(5, static_cast<float>(number)));
  });
}

TEST_P(Requests, parts_of_uneven_size_sum_hierarchically) {
  on_ranks(5, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port,
                        .ranks = {0, 1, 2, 3, 4},
                        .id = 1,
                        .choices = {{{.algorithm = "hierarchical"}}},
                        .parts = {{0, 3}, {1, 2, 4}}});
    const auto data = rank.floats(40'003, static_cast<float>(number));
    const auto sum = group.prepare({.count = 40'003});
    EXPECT_EQ(sum->name(), "hierarchical_all_reduce");
    group.start({.count = 40'003}, Rank::view(*data)).wait(after_seconds(kSeconds));
    EXPECT_EQ(rank.read(*data), filled(40'003, 10));
  });
}

// The text of the error that `body` throws.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_P(Requests, members_with_different_tables_are_told_so_before_they_choose) {
  on_ranks(3, [&](Rank& rank, int number) {
    ChoiceTable table = default_choices();
    if (number == 1) table.rules[0].most_bytes += 1;
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2}, .id = 1, .choices = table});
    const std::string said = error_of([&] { group.prepare({.count = 7}); });
    EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
    EXPECT_NE(said.find("table of algorithms"), std::string::npos) << said;
  });
}

TEST_P(Requests, a_member_that_cancels_a_collective_is_named_on_all) {
  on_ranks(3, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2}, .id = 1});
    const auto data = rank.floats(100'000, 1);
    Request request = group.start({.count = 100'000}, Rank::view(*data));
    if (number == 2) {
      request.cancel();
      return;
    }
    const std::string said = error_of([&] { request.wait(after_seconds(kSeconds)); });
    EXPECT_NE(said.find("cancelled by rank 2"), std::string::npos) << said;
  });
}

// Whether the device has done all that was queued.
bool idle(Rank& rank) {
  const auto mark = rank.backend.make_event();
  rank.queue->record(*mark);
  return mark->done();
}

TEST_P(Requests, the_device_is_done_with_the_memory_of_a_collective_that_has_failed) {
  on_ranks(2, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 1});
    const auto sum = group.prepare({.count = 50'000});
    const auto data = rank.floats(50'000, 0);
    const auto given = rank.floats(50'000, 1);
    Request request = group.start({.count = 50'000}, Rank::view(*data), Rank::view(*given));
    if (number == 0) {
      request.cancel();
    } else {
      error_of([&] { request.wait(after_seconds(kSeconds)); });
    }
    EXPECT_TRUE(idle(rank));
    Request late = group.start({.count = 50'000}, Rank::view(*data), Rank::view(*given));
    EXPECT_NE(error_of([&] { late.wait({}); }), "no error");
    EXPECT_TRUE(idle(rank));
    Request tested = group.start({.count = 50'000}, Rank::view(*data), Rank::view(*given));
    EXPECT_NE(error_of([&] {
                while (!tested.test())
                  std::this_thread::yield();
              }),
              "no error");
    EXPECT_TRUE(idle(rank));
  });
}

TEST_P(Requests, the_device_is_done_with_the_memory_of_a_message_that_has_failed) {
  for (const bool cancels : {true, false}) {
    on_ranks(2, [&](Rank& rank, int number) {
      Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 1});
      const auto data = rank.floats(50'000, 1);
      const std::string said = error_of([&] {
        Request request = group.send(1 - number, 5, Rank::view(*data));
        cancels ? request.cancel() : request.wait({});
      });
      EXPECT_EQ(said == "no error", cancels) << said;
      // Only memory that the CPU cannot address is copied to be sent.
      EXPECT_TRUE(GetParam() || idle(rank));
    });
  }
}

TEST_P(Requests, members_that_call_other_counts_or_reductions_are_told_by_both_names) {
  for (const bool by_count : {true, false}) {
    on_ranks(2, [&](Rank& rank, int number) {
      Communicator group({.port = &rank.port, .ranks = {0, 1}, .id = 1});
      Collective call{.dtype = DType::kF32, .count = 2000};
      if (number == 0 && by_count) call.count = 1000;
      if (number == 0 && !by_count) call.reduction = Reduction::kAvg;
      const auto data = rank.floats(call.count, 1);
      const std::string said =
          error_of([&] { group.start(call, Rank::view(*data)).wait(after_seconds(kSeconds)); });
      EXPECT_NE(said.find("f32 2000 elements"), std::string::npos) << said;
      EXPECT_NE(said.find(by_count ? "f32 1000 elements" : "2000 elements, avg"), std::string::npos)
          << said;
    });
  }
}

TEST_P(Requests, a_collective_that_one_member_never_starts_ends_at_its_deadline) {
  on_ranks(3, [&](Rank& rank, int number) {
    Communicator group({.port = &rank.port, .ranks = {0, 1, 2}, .id = 1});
    const auto sum = group.prepare({.count = 999});
    if (number == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      return;
    }
    const auto data = rank.floats(999, 1);
    const std::string said =
        error_of([&] { group.start({.count = 999}, Rank::view(*data)).wait(after_seconds(0.3)); });
    EXPECT_NE(said.find("all_reduce #"), std::string::npos) << said;
  });
}

INSTANTIATE_TEST_SUITE_P(Routes, Requests, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("direct") : std::string("staged");
});

}  // namespace
}  // namespace hethub
