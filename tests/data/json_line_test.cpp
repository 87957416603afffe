#include "hethub/data/json_line.h"

#include <random>

#include <nlohmann/json.hpp>

#include "hethub/data/utf8.h"
#include "tests/data/test_files.h"

namespace hethub {
namespace {

std::optional<LineFault> fault_of(std::string_view line) {
  std::string out;
  return read_json_text(line, "text", LoneSurrogates::kFault, out);
}

std::string text_of(std::string_view line, LoneSurrogates policy = LoneSurrogates::kFault) {
  std::string out;
  const auto fault = read_json_text(line, "text", policy, out);
  EXPECT_FALSE(fault.has_value()) << line << ": " << fault->found;
  return out;
}

TEST(JsonLine, the_text_is_found_among_other_members) {
  EXPECT_EQ(text_of(R"({"text":"a"})"), "a");
  EXPECT_EQ(text_of(R"( { "id" : 7 , "text" : "a b" , "meta" : {"text":"no"} } )"), "a b");
  EXPECT_EQ(text_of(R"({"list":[1,[],{},"x",null,true,-0.5e+3],"text":""})"), "");
  EXPECT_EQ(text_of("{\"text\":\"a\"}\r"), "a");
}

TEST(JsonLine, escapes_in_texts_and_keys_are_read) {
  EXPECT_EQ(text_of(R"({"text":"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00"})"),
            "\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001F600");
  EXPECT_EQ(text_of(R"({"te\u0078t":"a"})"), "a");
  EXPECT_EQ(text_of(R"({"text":"a\u0000b"})"), std::string("a\0b", 3));
}

TEST(JsonLine, what_pythons_json_module_takes_is_taken) {
  EXPECT_EQ(text_of(R"({"x":NaN,"y":-Infinity,"z":Infinity,"text":"a"})"), "a");
  EXPECT_EQ(text_of(R"({"text":"first","text":"last"})"), "last");
  EXPECT_EQ(text_of(R"({"text":null,"text":"last"})"), "last");
  EXPECT_TRUE(fault_of(R"({"text":"first","text":null})").has_value());
}

TEST(JsonLine, a_text_that_is_missing_or_no_string_is_a_fault) {
  for (const char* line :
       {R"({})", R"({"Text":"a"})", R"({"text":null})", R"({"text":3})", R"({"text":["a"]})",
        R"({"text":NaN})", R"(["text"])", R"("text")", R"(7)", R"({"a":{"text":"x"}})"}) {
    EXPECT_TRUE(fault_of(line).has_value()) << line;
  }
}

TEST(JsonLine, a_fault_has_its_column) {
  const auto column_of = [](std::string_view line) { return fault_of(line).value().column; };
  EXPECT_EQ(column_of(R"({"text":)"), 9U);
  EXPECT_EQ(column_of(R"({"text":"a)"), 11U);
  EXPECT_EQ(column_of(R"({"text":"a"} x)"), 14U);
  EXPECT_EQ(column_of(R"({"text":"a",})"), 13U);
  EXPECT_EQ(column_of(R"({"text":5})"), 9U);
  EXPECT_EQ(column_of(R"({"text":"\x"})"), 11U);
  EXPECT_EQ(column_of(R"({"text" "a"})"), 9U);
  EXPECT_EQ(column_of(R"({"text":"ab\ud800"})"), 12U);
}

TEST(JsonLine, half_a_surrogate_pair_is_a_fault_or_replaced) {
  for (const char* half : {R"(\ud800)", R"(\udc00)", R"(\ud800\ud800)", R"(\ud83dx)"}) {
    EXPECT_TRUE(fault_of(text(R"({"text":")", half, R"("})")).has_value()) << half;
  }
  const auto replaced = LoneSurrogates::kReplace;
  EXPECT_EQ(text_of(R"({"text":"a\ud800b"})", replaced), "a\uFFFDb");
  EXPECT_EQ(text_of(R"({"text":"\ud800\u0041"})", replaced), "\uFFFDA");
  EXPECT_EQ(text_of(R"({"text":"\ud800\ud83d\ude00"})", replaced), "\uFFFD\U0001F600");
}

TEST(JsonLine, nesting_is_bounded) {
  const auto nested = [](int depth) {
    return text(R"({"text":"a","x":)", std::string(depth, '['), std::string(depth, ']'), "}");
  };
  EXPECT_FALSE(fault_of(nested(999)).has_value());
  EXPECT_TRUE(fault_of(nested(1000)).has_value());
  EXPECT_TRUE(fault_of(text(R"({"x":)", std::string(1'000'000, '['))).has_value());
}

// nlohmann's parser is the judge; it differs from Python only in what this test leaves out.
TEST(JsonLine, mutated_lines_are_accepted_exactly_when_another_parser_accepts_them) {
  const std::string seed_line =
      R"({"id":-12.5e+3,"text":"a\u00e9\n\\","m":{"k":[1,0,true,false,null,"x"],"":{}},"z":[]})";
  constexpr std::string_view kAlphabet = "{}[]\":,\\ue0123456789-+.tfnalsr \x01";
  std::mt19937 random(7);
  int accepted = 0;
  for (int turn = 0; turn < 20'000; ++turn) {
    std::string line = seed_line;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % line.size();
      if (random() % 3 == 0) {
        line.erase(at, 1 + random() % 4);
      } else {
        line[at] = kAlphabet[random() % kAlphabet.size()];
      }
      if (line.empty()) line = " ";
    }
    const auto judge = nlohmann::json::parse(line, nullptr, false);
    const bool has_text = judge.is_object() && judge.contains("text") && judge["text"].is_string();
    std::string found;
    const bool ours = !read_json_text(line, "text", LoneSurrogates::kFault, found);
    ASSERT_EQ(ours, has_text) << line;
    if (!ours) continue;
    ASSERT_EQ(found, judge["text"].get<std::string>()) << line;
    ++accepted;
  }
  EXPECT_GT(accepted, 200);
}

}  // namespace
}  // namespace hethub
