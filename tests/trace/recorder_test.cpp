#include "hethub/trace/recorder.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace {

std::atomic<int> allocations = 0;

}  // namespace

// Count what this program takes from the heap. Inlined, they would look mismatched to g++.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hethub {
namespace {

TEST(TraceRecorder, gives_each_span_with_its_labels_names_and_values) {
  TraceRecorder recorder(4, "rank 4 (cpu)", 8);
  const int send = recorder.add_label(
      {.lane = "comm", .name = "send 3", .category = "send", .value_names = {"bytes", "step"}});
  const int forward =
      recorder.add_label({.lane = "compute", .name = "forward 3", .category = "forward"});
  recorder.record(send, 1, 2, {4096, 7});
  recorder.record(forward, 0, 1);
  const Timeline expected = {.name = "measured",
                             .rank_names = {{4, "rank 4 (cpu)"}},
                             .spans = {{.rank = 4,
                                        .lane = "comm",
                                        .name = "send 3",
                                        .category = "send",
                                        .begin_s = 1,
                                        .end_s = 2,
                                        .args = {{"bytes", 4096}, {"step", 7}}},
                                       {.rank = 4,
                                        .lane = "compute",
                                        .name = "forward 3",
                                        .category = "forward",
                                        .begin_s = 0,
                                        .end_s = 1}}};
  EXPECT_EQ(recorder.take("measured"), expected);
}

TEST(TraceRecorder, a_full_one_keeps_the_newest_and_counts_the_others) {
  for (int capacity = 1; capacity <= 5; ++capacity) {
    for (int count = 0; count <= 12; ++count) {
      TraceRecorder recorder(0, "rank 0", capacity);
      const int label = recorder.add_label({.lane = "compute"});
      for (int second = 0; second < count; ++second) {
        recorder.record(label, second, second + 1);
      }
      const Timeline timeline = recorder.take("t");
      const int kept = std::min(capacity, count);
      ASSERT_EQ(timeline.spans.size(), static_cast<std::size_t>(kept));
      EXPECT_EQ(timeline.dropped, count - kept);
      for (int place = 0; place < kept; ++place) {
        EXPECT_EQ(timeline.spans[static_cast<std::size_t>(place)].begin_s, count - kept + place);
      }
    }
  }
}

TEST(TraceRecorder, what_was_taken_is_not_given_again) {
  TraceRecorder recorder(0, "rank 0", 4);
  const int label = recorder.add_label({.lane = "compute"});
  for (int second = 0; second < 3; ++second) {
    recorder.record(label, second, second + 1);
  }
  EXPECT_EQ(recorder.take("t").spans.size(), 3U);
  recorder.record(label, 3, 4);
  const Timeline timeline = recorder.take("t");
  ASSERT_EQ(timeline.spans.size(), 1U);
  EXPECT_EQ(timeline.spans[0].begin_s, 3);
  EXPECT_EQ(timeline.dropped, 0);
}

TEST(TraceRecorder, recording_allocates_nothing) {
  TraceRecorder recorder(0, "rank 0", 16);
  const int label =
      recorder.add_label({.lane = "compute", .name = std::string(100, 'n'), .category = "forward"});
  const int before = allocations;
  for (int second = 0; second < 100; ++second) {
    recorder.record(label, second, second + 1, {1, 2});
  }
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(recorder.take("t").spans.size(), 16U);
  EXPECT_GT(allocations - before, 0);  // the count does count
}

TEST(TraceRecorder, spans_of_threads_that_record_at_once_are_whole) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20000;
  TraceRecorder recorder(0, "rank 0", 64);
  std::vector<int> labels;
  for (int thread = 0; thread < kThreads; ++thread) {
    labels.push_back(recorder.add_label({.lane = std::to_string(thread), .value_names = {"v"}}));
  }
  std::int64_t seen = 0;
  const auto take = [&] {
    const Timeline timeline = recorder.take("t");
    for (const Span& span : timeline.spans) {
      EXPECT_EQ(span.end_s, span.begin_s + std::stoi(span.lane));
      EXPECT_EQ(span.args.at(0).value, 2 * span.begin_s);
    }
    seen += static_cast<std::int64_t>(timeline.spans.size());
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int second = 0; second < kEach; ++second) {
        recorder.record(labels[static_cast<std::size_t>(thread)], second, second + thread,
                        {2.0 * second});
      }
    });
  }
  for (int times = 0; times < 100; ++times) {
    take();
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  take();
  EXPECT_GT(seen, 0);
  EXPECT_LE(seen, kThreads * kEach);
}

TEST(TraceRecorder, one_with_no_room_is_refused) { EXPECT_THROW(TraceRecorder(0, "r", 0), Error); }

}  // namespace
}  // namespace hethub
