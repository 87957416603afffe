#include "hethub/report/traced_step.h"

#include <gtest/gtest.h>

namespace hethub {
namespace {

void add(Timeline& timeline, int rank, const std::string& name, double begin, double end) {
  timeline.spans.push_back(
      {.rank = rank, .lane = "compute", .name = name, .begin_s = begin, .end_s = end});
}

void add_step(Timeline& timeline, double begin, double forward) {
  add(timeline, 0, "forward 0", begin, begin + forward);
  add(timeline, 0, "update", begin + 3, begin + 4);
  add(timeline, 1, "recv_activation 0", begin + 0.5, begin + 1);
  add(timeline, 1, "update", begin + 3, begin + 4.5);
}

TEST(TracedStep, the_last_step_is_taken_and_begins_at_zero) {
  Timeline timeline{.name = "measured"};
  add_step(timeline, 10, 1);
  add_step(timeline, 20, 2);
  add_step(timeline, 30, 2.5);
  const Timeline step = last_whole_step(timeline);
  ASSERT_EQ(step.spans.size(), 4U);
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

TEST(TracedStep, one_step_alone_stays_as_it_is) {
  Timeline timeline{.name = "predicted"};
  add_step(timeline, 0, 1);
  EXPECT_EQ(last_whole_step(timeline).spans.size(), 4U);
}

}  // namespace
}  // namespace hethub
