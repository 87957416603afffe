#include "hethub/trace/timeline.h"

#include <gtest/gtest.h>

namespace hethub {
namespace {

Span compute(int rank, double begin, double end) {
  return {.rank = rank,
          .lane = "compute",
          .name = "forward",
          .category = "forward",
          .begin_s = begin,
          .end_s = end};
}

TEST(Timeline, an_empty_one_took_no_time) {
  EXPECT_EQ(makespan_s({}), 0);
  EXPECT_EQ(bubble_fraction({}), 0);
  EXPECT_TRUE(ranks_of({}).empty());
}

TEST(Timeline, makespan_is_from_the_first_begin_to_the_last_end) {
  EXPECT_EQ(makespan_s({.spans = {compute(0, 4, 5), compute(1, 2, 3), compute(0, 3, 9)}}), 7);
}

TEST(Timeline, time_that_two_spans_share_is_busy_once) {
  Timeline timeline = {
      .spans = {compute(0, 4, 6), compute(0, 0, 3), compute(0, 1, 2), compute(0, 5, 7)}};
  Span elsewhere = compute(0, 0, 100);
  elsewhere.lane = "comm";
  timeline.spans.push_back(elsewhere);
  timeline.spans.push_back(compute(1, 0, 100));
  EXPECT_EQ(busy_s(timeline, 0, "compute"), 6);  // [0, 3) and [4, 7)
  EXPECT_EQ(busy_s(timeline, 0, "comm"), 100);
  EXPECT_EQ(busy_s(timeline, 2, "compute"), 0);
}

// GPipe with p equal stages and m micro-batches of unit time has (p - 1) / (m + p - 1) bubble.
// Source: Huang et al., "GPipe", NeurIPS 2019.
TEST(Timeline, the_bubble_of_a_forward_pipeline_is_gpipes) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int micro_batches = 1; micro_batches <= 6; ++micro_batches) {
      Timeline timeline;
      for (int stage = 0; stage < stages; ++stage) {
        for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
          timeline.spans.push_back(compute(stage, stage + micro_batch, stage + micro_batch + 1));
        }
      }
      EXPECT_NEAR(bubble_fraction(timeline), (stages - 1.0) / (micro_batches + stages - 1), 1e-12);
    }
  }
}

TEST(Timeline, merging_puts_ranks_on_one_clock_that_starts_at_0) {
  const Timeline first = {.name = "measured",
                          .rank_names = {{0, "rank 0 (cpu)"}},
                          .spans = {compute(0, 100, 101)},
                          .dropped = 2};
  const Timeline second = {.name = "measured",
                           .rank_names = {{1, "rank 1 (opencl)"}},
                           .spans = {compute(1, 7002, 7004), compute(1, 6999, 7001)},
                           .dropped = 3};
  const Timeline whole = merge(std::vector{first, second}, {{1, 6900.0}});
  const Timeline expected = {.name = "measured",
                             .rank_names = {{0, "rank 0 (cpu)"}, {1, "rank 1 (opencl)"}},
                             .spans = {compute(1, 0, 2), compute(0, 1, 2), compute(1, 3, 5)},
                             .dropped = 5};
  EXPECT_EQ(whole, expected);
  EXPECT_EQ(merge(std::vector{second, first}, {{1, 6900.0}}), expected);
}

}  // namespace
}  // namespace hethub
