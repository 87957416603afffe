#include "hethub/trace/perfetto.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

std::vector<Timeline> two_timelines() {
  return {{.name = "measured",
           .rank_names = {{0, "rank 0 (cpu)"}, {3, "rank 3 (opencl)"}},
           .spans = {{.rank = 3,
                      .lane = "compute",
                      .name = "forward 1",
                      .category = "forward",
                      .begin_s = 0.25,
                      .end_s = 0.5},
                     {.rank = 0,
                      .lane = "comm",
                      .name = "send \"x\"\\\n\x01 \xE6\x97\xA5",
                      .category = "send",
                      .begin_s = 1.0 / 3,
                      .end_s = 2.0 / 3,
                      .args = {{"bytes", 4096}, {"step", 7}}}},
           .dropped = 11},
          {.name = "predicted",
           .spans = {{.rank = 0, .lane = "compute", .name = "", .begin_s = 1, .end_s = 1}}}};
}

void expect_same(const std::vector<Timeline>& found, const std::vector<Timeline>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t which = 0; which < found.size(); ++which) {
    Timeline timeline = found[which];
    ASSERT_EQ(timeline.spans.size(), expected[which].spans.size());
    for (std::size_t number = 0; number < timeline.spans.size(); ++number) {
      const Span& span = expected[which].spans[number];
      EXPECT_NEAR(timeline.spans[number].begin_s, span.begin_s, 1e-9);
      EXPECT_NEAR(timeline.spans[number].end_s, span.end_s, 1e-9);
      timeline.spans[number].begin_s = span.begin_s;
      timeline.spans[number].end_s = span.end_s;
    }
    EXPECT_EQ(timeline, expected[which]);
  }
}

TEST(Perfetto, what_was_written_is_read_back) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "what_was_written.json";
  write_perfetto(two_timelines(), file);
  expect_same(read_perfetto(file), two_timelines());
  std::filesystem::remove(file);
}

TEST(Perfetto, no_timeline_is_an_empty_trace) {
  EXPECT_TRUE(parse_perfetto(perfetto_text({}), "t.json").empty());
}

// The Chrome form, read with nothing of ours but the JSON parser.
TEST(Perfetto, a_span_is_an_x_event_in_microseconds_of_a_named_process_and_thread) {
  const Json events = parse_json(perfetto_text(two_timelines()), "t.json").at("traceEvents");
  int spans = 0;
  for (const Json& event : events) {
    if (event.at("ph") != "X" || event.at("name") != "forward 1") continue;
    ++spans;
    EXPECT_EQ(event.at("ts"), 250000.0);
    EXPECT_EQ(event.at("dur"), 250000.0);
    EXPECT_EQ(event.at("pid"), 3);
    int names = 0;
    for (const Json& name : events) {
      if (name.at("ph") != "M" || name.at("pid") != 3) continue;
      if (name.at("name") == "process_name") {
        ++names;
        EXPECT_EQ(name.at("args").at("name"), "measured: rank 3 (opencl)");
      }
      if (name.at("name") == "thread_name" && name.at("tid") == event.at("tid")) {
        ++names;
        EXPECT_EQ(name.at("args").at("name"), "compute");
      }
    }
    EXPECT_EQ(names, 2);
  }
  EXPECT_EQ(spans, 1);
}

TEST(Perfetto, a_name_that_is_not_utf8_still_gives_a_valid_file) {
  const Timeline timeline = {.spans = {{.lane = "a", .name = "\xFF", .begin_s = 0, .end_s = 1}}};
  EXPECT_EQ(parse_perfetto(perfetto_text(std::vector{timeline}), "t.json")[0].spans.size(), 1U);
}

TEST(Perfetto, what_is_no_trace_is_refused_with_its_place) {
  const std::string process =
      R"({"ph":"M","name":"process_name","pid":0,"args":{"name":"r","timeline":"m","timeline_index":0,"rank":0,"dropped":0}})";
  const std::string lane =
      R"({"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"compute"}})";
  const auto span = [](const std::string& change) {
    Json event = {{"ph", "X"}, {"name", "f"}, {"cat", "f"}, {"ts", 1},
                  {"dur", 1},  {"pid", 0},    {"tid", 0},   {"args", Json::object()}};
    event.merge_patch(Json::parse(change));
    return event.dump();
  };
  const auto read = [&](const std::string& last) {
    return parse_perfetto("{\"traceEvents\":[" + process + "," + lane + "," + last + "]}",
                          "t.json");
  };
  EXPECT_EQ(read(span("{}"))[0].spans.size(), 1U);
  EXPECT_EQ(read(R"({"ph":"C","name":"a counter of another program"})")[0].spans.size(), 0U);
  for (const std::string change :
       {R"({"ts":"1"})", R"({"ts":null})", R"({"dur":-1})", R"({"pid":1})", R"({"tid":1})",
        R"({"pid":0.5})", R"({"name":null})", R"({"cat":3})", R"({"args":[1]})",
        R"({"args":{"a":"b"}})", R"({"ph":null})"}) {
    try {
      read(span(change));
      ADD_FAILURE() << change << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
      EXPECT_NE(std::string(error.what()).find("t.json: event 2"), std::string::npos)
          << error.what();
    }
  }
  for (const std::string content :
       {"", "[]", "{}", R"({"traceEvents":3})", R"({"traceEvents":[3]})", R"({"traceEvents":[)"}) {
    EXPECT_THROW(parse_perfetto(content, "t.json"), Error) << content;
  }
}

}  // namespace
}  // namespace hethub
