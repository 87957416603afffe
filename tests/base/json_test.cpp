#include "hethub/base/json.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// The text of the error that reading `content` as `name` gives; "" and a failure if it gives none.
std::string refusal(const std::string& content, const std::string& name) {
  try {
    const Json read = parse_document(content, name);
    ADD_FAILURE() << content.substr(0, 80) << " was read as " << read.dump().substr(0, 80);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    return error.what();
  }
  return "";
}

std::string repeated(const std::string& part, int times) {
  std::string out;
  for (int time = 0; time < times; ++time) {
    out += part;
  }
  return out;
}

TEST(Document, keeps_the_order_of_keys) {
  EXPECT_EQ(parse_document(R"({"b": 1, "a": {"z": [1, 2.5, null, true], "y": ""}})", "f").dump(),
            R"({"b":1,"a":{"z":[1,2.5,null,true],"y":""}})");
  EXPECT_EQ(parse_document("b: 1\na:\n  z: [1, 2.5, null, true]\n  y: ''\n", "f").dump(),
            R"({"b":1,"a":{"z":[1,2.5,null,true],"y":""}})");
}

TEST(Document, json_is_read_as_yaml_would_read_it) {
  const std::string content = R"({"a": "\u65e5\n\"", "b": [-1, 1e-4, 18446744073709551615]})";
  EXPECT_EQ(parse_document(content, "f"), parse_document("# YAML\n" + content, "f"));
}

TEST(Document, a_key_that_stands_twice_is_refused_at_its_place) {
  EXPECT_TRUE(refusal("{\n  \"a\": 1,\n  \"a\": 2}", "f.json").starts_with("f.json:3:3, "))
      << refusal("{\n  \"a\": 1,\n  \"a\": 2}", "f.json");
  EXPECT_TRUE(refusal("x:\n  a: 1\n  b: 2\n  a: 3\n", "f.yaml").starts_with("f.yaml:4:3, "));
  refusal(R"([{"a": {"b": 1, "c": {}, "b": 2}}])", "f.json");
  refusal("{a: 1, a: 2}", "f");
  EXPECT_EQ(parse_document(R"([{"a": {"a": 1}}, {"a": 2}])", "f.json").size(), 2U);
}

TEST(Document, a_syntax_error_is_refused_at_its_place) {
  EXPECT_TRUE(refusal("{\n \"a\": 1,\n \"b\" 2}", "f.json").starts_with("f.json:3:6, "))
      << refusal("{\n \"a\": 1,\n \"b\" 2}", "f.json");
  EXPECT_TRUE(refusal("a: 1\n\tb: 2\n", "f.yaml").starts_with("f.yaml:2:1"))
      << refusal("a: 1\n\tb: 2\n", "f.yaml");
  for (const std::string content : {"", "{", "[1,]", "{\"a\":}", "{\"a\":1} x", "{a: 1}", "[NaN]",
                                    "[0123]", "[\"\xFF\"]", "[\"\\ud800\"]", "[1e400]", "nul"}) {
    EXPECT_TRUE(refusal(content, "f.json").starts_with("f.json:1:")) << content;
  }
}

TEST(Document, what_is_meant_as_json_is_told_what_json_lacks) {
  EXPECT_NE(refusal("{\"a\": [1, 2}", "f").find("f:1:12"), std::string::npos)
      << refusal("{\"a\": [1, 2}", "f");
}

TEST(Document, nesting_is_bounded) {
  const auto nested = [](int depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_EQ(parse_document(nested(120), "f.json").size(), 1U);
  EXPECT_EQ(parse_document("# YAML\n" + nested(120), "f").size(), 1U);
  for (const int depth : {200, 1'000'000}) {
    refusal(nested(depth), "f.json");
    refusal(repeated("[", depth), "f.json");
    refusal("# YAML\n" + nested(depth), "f");
    refusal(repeated("{\"a\":", depth), "f.json");
  }
  refusal("a: &a [*a]\n", "f");
}

TEST(Document, aliases_count_each_time_they_are_used) {
  std::string bomb = "a0: &a0 x\n";
  for (int level = 1; level <= 9; ++level) {
    const std::string before = std::to_string(level - 1);
    bomb += "a" + std::to_string(level) + ": &a" + std::to_string(level) + " [";
    bomb += repeated("*a" + before + ", ", 9) + "*a" + before + "]\n";
  }
  EXPECT_NE(refusal(bomb, "f").find("million"), std::string::npos);
  const std::string words =
      "a: &a '" + std::string(1 << 20, 'x') + "'\nb: [" + repeated("*a, ", 100) + "*a]\n";
  EXPECT_NE(refusal(words, "f").find("million"), std::string::npos);
  EXPECT_EQ(parse_document("a: &a {b: 1}\nc: *a\n", "f").at("c").at("b"), 1);
}

TEST(Document, only_jsons_spellings_are_no_text_in_yaml) {
  const Json read = parse_document(
      "norway: no\noctal: 0123\nhex: 0x10\nplus: +1\npoint: .5\ntrue: True\nquoted: '5'\n"
      "block: |\n  5\ntagged: !!str 5\nversion: 1.2.3\ndate: 2026-12-02\nnan: .nan\n",
      "f");
  for (const auto& [key, value] : read.items()) {
    EXPECT_TRUE(value.is_string()) << key << " " << value;
  }
  const Json numbers = parse_document("a: 1e-4\nb: -7\nc: true\nd: null\ne: ~\nf:\n", "f");
  EXPECT_EQ(numbers.dump(), R"({"a":0.0001,"b":-7,"c":true,"d":null,"e":null,"f":null})");
}

TEST(Document, yaml_that_json_cannot_say_is_refused) {
  refusal("a: !mine 5\n", "f");
  refusal("[1, 2]: 3\n", "f");
  refusal("a: 1\n---\na: 2\n", "f");
}

TEST(Document, a_byte_order_mark_changes_nothing) {
  EXPECT_EQ(parse_document("\xEF\xBB\xBF{\"a\": 1}", "f").dump(), R"({"a":1})");
  EXPECT_EQ(parse_document("\xEF\xBB\xBF{\"a\": 1}", "f.json").dump(), R"({"a":1})");
  EXPECT_EQ(parse_document("\xEF\xBB\xBF"
                           "a: 1\n",
                           "f")
                .dump(),
            R"({"a":1})");
}

TEST(Document, a_file_that_is_not_there_is_missing_input) {
  try {
    read_document("/nowhere/plan.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMissingInput);
  }
}

TEST(CheckKeys, suggests_the_nearest_key_it_knows) {
  const auto said = [](const Json& object) -> std::string {
    try {
      check_keys(object, "plan.json: pipelines[0]", {"stages", "micro_batches"});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said(parse_json(R"({"stages": 1, "micro_batches": 2})", "f")), "");
  EXPECT_EQ(said(parse_json("{}", "f")), "");
  EXPECT_NE(said(parse_json(R"({"stage": 1})", "f")).find("did you mean \"stages\"?"),
            std::string::npos);
  EXPECT_NE(said(parse_json(R"({"micro_bacthes": 1})", "f")).find("\"micro_batches\"?"),
            std::string::npos);
  const std::string far = said(parse_json(R"({"colour": 1})", "f"));
  EXPECT_EQ(far.find("did you mean"), std::string::npos);
  EXPECT_TRUE(far.starts_with("plan.json: pipelines[0]: unknown key")) << far;
  EXPECT_NE(far.find("stages, micro_batches"), std::string::npos) << far;
  EXPECT_NE(said(Json::array()), "");
}

template <typename T>
bool gives(const std::string& value, T expected) {
  return get<T>(parse_json("{\"k\":" + value + "}", "f"), "f", "k") == expected;
}

template <typename T>
bool refuses(const Json& value) {
  try {
    get<T>(Json{{"k", value}}, "f", "k");
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInvalidConfig &&
           std::string(error.what()).starts_with("f: k, found ");
  }
  return false;
}

TEST(Get, gives_what_fits_its_type) {
  EXPECT_TRUE(gives<bool>("true", true));
  EXPECT_TRUE(gives<int>("-2147483648", -2147483647 - 1));
  EXPECT_TRUE(gives<int>("2147483647", 2147483647));
  EXPECT_TRUE(gives<std::int64_t>("9223372036854775807", INT64_MAX));
  EXPECT_TRUE(gives<std::int64_t>("-9223372036854775808", INT64_MIN));
  EXPECT_TRUE(gives<double>("3", 3.0));
  EXPECT_TRUE(gives<double>("1e-4", 1e-4));
  EXPECT_TRUE(gives<std::string>("\"x\"", "x"));
  EXPECT_TRUE((gives<std::vector<int>>("[1, 2]", {1, 2})));
  EXPECT_TRUE((gives<std::vector<double>>("[]", {})));
}

TEST(Get, refuses_what_does_not_fit) {
  EXPECT_TRUE(refuses<int>(2147483648));
  EXPECT_TRUE(refuses<int>(std::int64_t{5'000'000'000}));
  EXPECT_TRUE(refuses<int>(-2147483649));
  EXPECT_TRUE(refuses<std::int64_t>(9223372036854775808ULL));
  EXPECT_TRUE(refuses<std::int64_t>(parse_json("18446744073709551616", "f")));  // 2^64
  EXPECT_TRUE(refuses<std::int64_t>(1.0));
  EXPECT_TRUE(refuses<int>("1"));
  EXPECT_TRUE(refuses<int>(true));
  EXPECT_TRUE(refuses<bool>(1));
  EXPECT_TRUE(refuses<double>("1"));
  EXPECT_TRUE(refuses<double>(nullptr));
  EXPECT_TRUE(refuses<std::string>(1));
  EXPECT_TRUE(refuses<std::vector<int>>(Json::array({1, 2147483648})));
  EXPECT_TRUE(refuses<std::vector<std::string>>(Json::array({"a", 1})));
  EXPECT_THROW(get<int>(Json::object(), "f", "k"), Error);
  EXPECT_THROW(get<int>(Json::array(), "f", "k"), Error);
}

TEST(Get, falls_back_only_where_nothing_is_said) {
  const Json object = parse_json(R"({"null": null, "wrong": "x", "right": 3})", "f");
  EXPECT_EQ(get_or<int>(object, "f", "absent", 7), 7);
  EXPECT_EQ(get_or<int>(object, "f", "null", 7), 7);
  EXPECT_EQ(get_or<int>(object, "f", "right", 7), 3);
  EXPECT_THROW(get_or<int>(object, "f", "wrong", 7), Error);
}

}  // namespace
}  // namespace hethub
