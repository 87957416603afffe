#include "hethub/predict/simulator.h"

#include <random>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/collective/generators.h"
#include "hethub/predict/step_builder.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

SimTask work(double seconds) { return {.seconds = seconds}; }
SimTask send(int message, int channel, double seconds) {
  return {.kind = SimTaskKind::kSend, .seconds = seconds, .message = message, .channel = channel};
}
SimTask recv(int message) { return {.kind = SimTaskKind::kRecv, .message = message}; }

TEST(Simulator, a_send_leaves_its_rank_free_and_a_receive_waits) {
  const SimStep step{
      .tasks = {{send(0, 0, 5), work(2)}, {recv(0), work(1)}}, .messages = 1, .channels = 1};
  const SimTimes times = simulate(step);
  EXPECT_EQ(times.rank_seconds, (std::vector<double>{2, 6}));
  EXPECT_EQ(times.step_seconds, 6);
  EXPECT_EQ(times.tasks[1][0].end_s, 5);
  EXPECT_EQ(times.messages[0].end_s, 5);
}

TEST(Simulator, a_channel_carries_one_message_at_a_time_in_order) {
  const SimStep step{
      .tasks = {{send(0, 0, 5), send(1, 0, 5), send(2, 1, 1)}, {recv(1)}, {recv(0)}, {recv(2)}},
      .messages = 3,
      .channels = 2};
  EXPECT_EQ(simulate(step, SimDetail::kEndsOnly).rank_seconds, (std::vector<double>{0, 10, 5, 1}));
}

TEST(Simulator, a_meeting_begins_with_its_last_rank_and_ranks_alike_share_their_times) {
  const SimTask meet{.kind = SimTaskKind::kMeet, .message = 0};
  SimStep step{.tasks = {{work(1), meet, work(1)}, {work(4), meet}, {}},
               .meetings = {{.ranks = 2, .seconds = 2}},
               .like = {0, 1, 0}};
  EXPECT_EQ(simulate(step).rank_seconds, (std::vector<double>{7, 6, 7}));
  step.meetings[0].ranks = 3;
  EXPECT_THROW(simulate(step), Error);
}

TEST(Simulator, a_step_that_cannot_finish_names_who_waits) {
  const SimStep step{
      .tasks = {{recv(0), send(1, 0, 1)}, {recv(1), send(0, 1, 1)}}, .messages = 2, .channels = 2};
  try {
    simulate(step);
    FAIL() << "a deadlock was not seen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
    EXPECT_NE(std::string(error.what()).find("rank 0"), std::string::npos);
  }
}

// A step in which random messages are sent in one order that all ranks follow, so it can finish.
SimStep random_step(std::mt19937& random, int ranks) {
  SimStep step{.channels = ranks * ranks};
  step.tasks.resize(ranks);
  const auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  for (int event = 0; event < 60; ++event) {
    const int from = below(ranks);
    const int to = below(ranks);
    if (from == to) {
      step.tasks[from].push_back(work(below(10)));
    } else {
      step.tasks[from].push_back(send(step.messages, from * ranks + to, below(10)));
      step.tasks[to].push_back(recv(step.messages++));
    }
  }
  return step;
}

TEST(Simulator, no_cost_that_rises_makes_any_rank_faster) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    SimStep step = random_step(random, 2 + round % 5);
    const SimTimes before = simulate(step, SimDetail::kEndsOnly);
    std::vector<SimTask>& tasks = step.tasks[random() % step.tasks.size()];
    if (tasks.empty()) continue;
    tasks[random() % tasks.size()].seconds += 3;
    const SimTimes after = simulate(step, SimDetail::kEndsOnly);
    for (std::size_t rank = 0; rank < step.tasks.size(); ++rank) {
      EXPECT_GE(after.rank_seconds[rank], before.rank_seconds[rank]);
    }
  }
}

void run_all(StepBuilder& builder, SimCollective collective) {
  for (int position = 0; position < std::ssize(collective.group); ++position) {
    builder.take_part(collective, position);
  }
}

TEST(StepBuilder, a_ring_all_reduce_takes_two_n_minus_one_rounds_of_an_nth) {
  const LinkRate rate{3e-6, 1e9};
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const CostModel costs = homogeneous(ranks, rate);
    StepBuilder builder(costs);
    std::vector<int> group;
    for (int rank = 0; rank < ranks; ++rank) {
      group.push_back(rank);
    }
    const std::int64_t count = 5040 * 100;  // a multiple of every size
    run_all(builder, builder.begin_collective(group, ring_all_reduce(ranks),
                                              even_chunks(count, ranks), DType::kF32));
    const double expected = 2 * (ranks - 1) * rate.seconds(4.0 * count / ranks);
    EXPECT_NEAR(simulate(builder.step()).step_seconds, expected, 1e-9 + 1e-6 * expected);
  }
}

TEST(StepBuilder, messages_that_nothing_waits_for_travel_beside_each_other) {
  const LinkRate rate{3e-6, 1e9};
  for (int ranks = 2; ranks <= 6; ++ranks) {
    const CostModel costs = homogeneous(ranks, rate);
    StepBuilder builder(costs);
    std::vector<int> group;
    for (int rank = 0; rank < ranks; ++rank) {
      group.push_back(rank);
    }
    const ChunkTable table(ranks, 5000);
    run_all(builder,
            builder.begin_collective(group, pairwise_all_gather(ranks), table, DType::kF32));
    EXPECT_NEAR(simulate(builder.step()).step_seconds, rate.seconds(4.0 * 5000), 1e-12);
  }
}

TEST(StepBuilder, a_link_s_speed_never_makes_a_collective_slower) {
  double before = 1e9;
  for (double speed = 1e6; speed < 1e12; speed *= 3) {
    const CostModel costs = homogeneous(4, {1e-6, speed});
    StepBuilder builder(costs);
    run_all(builder, builder.begin_collective({0, 1, 2, 3}, ring_all_reduce(4), {1, 500, 7, 90000},
                                              DType::kF32));
    const double now = simulate(builder.step()).step_seconds;
    EXPECT_LE(now, before);
    before = now;
  }
}

TEST(StepBuilder, a_staged_message_keeps_sender_and_receiver_busy_with_their_copies) {
  const CostModel costs({.kinds = {{.name = "k", .memory_bytes = 1, .host_copy = {0, 1e3}}},
                         .nodes = {{.name = "n", .devices = {{"k", 2}}}},
                         .links = {{"k", "k", LinkScope::kNode, RouteKind::kHostStaged, {0, 1e3}}}},
                        {});
  StepBuilder builder(costs);
  const int message = builder.add_message();
  builder.send(0, 1, 1e3, message);
  builder.recv(1, 0, 1e3, message);
  const SimTimes times = simulate(builder.step());
  EXPECT_DOUBLE_EQ(times.rank_seconds[0], 1);
  EXPECT_DOUBLE_EQ(times.rank_seconds[1], 3);
}

}  // namespace
}  // namespace hethub
