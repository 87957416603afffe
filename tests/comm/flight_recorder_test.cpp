#include "hethub/comm/flight_recorder.h"

#include <thread>

#include <gtest/gtest.h>

#include "hethub/comm/tags.h"
#include "tests/comm/errors.h"
#include "tests/comm/local_world.h"

namespace hethub {
namespace {

TEST(FlightRecorder, keeps_the_last_operations_in_their_order) {
  FlightRecorder recorder;
  const int all = static_cast<int>(FlightRecorder::kKept) * 3 + 5;
  for (int peer = 1; peer <= all; ++peer) {
    const auto number = recorder.begin(FlightKind::kSend, point_to_point_tag(0, 7), peer, 100);
    if (peer % 2 == 0) recorder.end(number, FlightState::kDone);
  }
  const std::vector<FlightRecord> records = recorder.records();
  ASSERT_EQ(records.size(), FlightRecorder::kKept);
  EXPECT_EQ(records.back().peer, all);
  for (std::size_t at = 1; at < records.size(); ++at) {
    EXPECT_EQ(records[at].number, records[at - 1].number + 1);
  }
  for (const FlightRecord& record : records) {
    const bool ended = record.peer % 2 == 0;
    EXPECT_EQ(record.state, ended ? FlightState::kDone : FlightState::kUnderWay);
    EXPECT_EQ(record.done, ended ? 100 : 0);
    EXPECT_EQ(record.end_ns >= record.begin_ns, ended);
  }
}

TEST(FlightRecorder, an_operation_that_is_forgotten_changes_no_other) {
  FlightRecorder recorder;
  const auto old = recorder.begin(FlightKind::kCollective, {}, -1, 10);
  for (std::size_t more = 0; more < FlightRecorder::kKept; ++more) {
    recorder.begin(FlightKind::kCollective, {}, -1, 10);
  }
  recorder.advance(old, 5);
  recorder.end(old, FlightState::kFailed);
  for (const FlightRecord& record : recorder.records()) {
    EXPECT_EQ(record.state, FlightState::kUnderWay);
    EXPECT_EQ(record.done, 0);
  }
}

TEST(FlightRecorder, what_is_read_while_others_write_is_whole) {
  FlightRecorder recorder;
  std::atomic<bool> ends = false;
  const auto write = [&](int peer) {
    while (!ends) {
      const auto number = recorder.begin(FlightKind::kRecv, {}, peer, peer * 1000);
      recorder.end(number, FlightState::kDone);
    }
  };
  std::thread first(write, 1);
  std::thread second(write, 2);
  for (int round = 0; round < 2000; ++round) {
    for (const FlightRecord& record : recorder.records()) {
      EXPECT_EQ(record.bytes, record.peer * 1000);
      EXPECT_EQ(record.end_ns == 0, record.state == FlightState::kUnderWay);
    }
  }
  ends = true;
  first.join();
  second.join();
}

TEST(FlightRecorder, a_failure_keeps_what_was_under_way) {
  const auto world = local_world(2, Transport::kTcp);
  std::vector<std::byte> memory(100);
  const Tag tag = point_to_point_tag(0, 5);
  const auto number = world[0]->recorder().begin(FlightKind::kRecv, tag, 1, 100);
  const Handle handle = world[0]->post_recv(1, tag, memory);
  const std::string before = world[0]->flight_text();
  expect_contains(before, "1: recv from rank 1 (host node1), message with tag 5: under way, 0 of");
  expect_contains(before, "messages under way:\n  from rank 1 (host node1), message with tag 5: ");
  error_text([&] { world[0]->wait(handle, {}, {.name = "recv", .number = 5}); },
             ErrorCode::kTimeout);
  world[0]->recorder().end(number, FlightState::kFailed);
  const std::string after = world[0]->flight_text();
  expect_contains(after, "tag 5: failed, 0 of 100 bytes");
  expect_contains(after, "when the job failed:\n  from rank 1");
  expect_contains(world[0]->flight_text(0), "its last 0 operations");
}

}  // namespace
}  // namespace hethub
