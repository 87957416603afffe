#include "hethub/report/traced_step.h"

#include <gtest/gtest.h>

#include "hethub/plan/schedule.h"

namespace hethub {
namespace {

void add(Timeline& timeline, int rank, const Action& action, double begin, double end) {
  const ActionLabel label = label_of(action);
  timeline.spans.push_back({.rank = rank,
                            .lane = std::string(label.lane),
                            .name = label.name,
                            .category = std::string(label.category),
                            .begin_s = begin,
                            .end_s = end});
}

constexpr Action kNorm = {.kind = ActionKind::kSyncNorm};
constexpr Action kUpdate = {.kind = ActionKind::kUpdate};

void add_step(Timeline& timeline, double begin, double forward) {
  add(timeline, 0, {.kind = ActionKind::kForward}, begin, begin + forward);
  add(timeline, 0, kNorm, begin + 2.5, begin + 3);
  add(timeline, 0, kUpdate, begin + 3, begin + 4);
  add(timeline, 1, {.kind = ActionKind::kRecvActivation}, begin + 0.5, begin + 1);
  add(timeline, 1, kNorm, begin + 2.5, begin + 3);
  add(timeline, 1, kUpdate, begin + 3, begin + 4.5);
}

TEST(TracedStep, the_last_step_is_taken_and_begins_at_zero) {
  Timeline timeline{.name = "measured"};
  add_step(timeline, 10, 1);
  add_step(timeline, 20, 2);
  add_step(timeline, 30, 2.5);
  const Timeline step = last_whole_step(timeline);
  ASSERT_EQ(step.spans.size(), 6U);
  EXPECT_EQ(step.spans[0].begin_s, 0);
  EXPECT_EQ(step.spans[0].seconds(), 2.5);
  EXPECT_EQ(makespan_s(step), 4.5);
}

TEST(TracedStep, a_step_that_a_rank_did_not_end_is_passed_over) {
  Timeline timeline{.name = "measured"};
  add_step(timeline, 10, 1);
  add_step(timeline, 20, 2);
  add_step(timeline, 30, 2.5);
  timeline.spans.pop_back();
  EXPECT_EQ(last_whole_step(timeline).spans[0].seconds(), 2);
}

TEST(TracedStep, a_rank_of_several_positions_begins_no_step_where_a_name_comes_again) {
  Timeline timeline{.name = "measured"};
  const Schedule schedule = make_schedule("interleaved", {2, 4, 2});
  for (int step = 0; step < 3; ++step) {
    for (int rank = 0; rank < schedule.workers(); ++rank) {
      double time = 1000 * step;
      for (const Action& action : schedule.actions[rank]) {
        add(timeline, rank, action, time, time + 1);
        time += 1;
      }
    }
  }
  const std::size_t spans = schedule.actions[0].size() + schedule.actions[1].size();
  const Timeline step = last_whole_step(timeline);
  EXPECT_EQ(step.spans.size(), spans);
  EXPECT_EQ(makespan_s(step), static_cast<double>(schedule.actions[0].size()));
}

TEST(TracedStep, one_step_alone_stays_as_it_is) {
  Timeline timeline{.name = "predicted"};
  add_step(timeline, 0, 1);
  EXPECT_EQ(last_whole_step(timeline).spans.size(), 6U);
}

}  // namespace
}  // namespace hethub
