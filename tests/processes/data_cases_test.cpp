// Inputs that broke other products, through the command line.

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte) {
    bytes += static_cast<char>(value >> (8 * byte) & 0xFFU);
  }
  return bytes;
}

std::string safetensors(std::string header, const std::string& data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return little_endian(header.size()) + header + data;
}

TEST(Inspect, metadata_values_must_be_strings) {
  const Workspace space("metadata");
  const std::string tail = R"(},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  space.write("f.safetensors", safetensors(R"({"__metadata__":{"unquoted_int":0)" + tail, "x"));
  const Outcome bad = space.hethub("checkpoint inspect f.safetensors");
  EXPECT_EQ(bad.status, 65);
  EXPECT_TRUE(bad.says("__metadata__.unquoted_int")) << bad.output;
  EXPECT_TRUE(bad.says("must be a string")) << bad.output;
  space.write("f.safetensors", safetensors(R"({"__metadata__":{"unquoted_int":"0")" + tail, "x"));
  EXPECT_EQ(space.hethub("checkpoint inspect f.safetensors").status, 0);
}

TEST(Inspect, a_file_without_tensors_is_one_and_a_broken_header_is_none) {
  const Workspace space("empty");
  space.write("a.safetensors", safetensors(R"({"__metadata__":{"key":"value"}})", ""));
  const Outcome good = space.hethub("checkpoint inspect a.safetensors");
  EXPECT_EQ(good.status, 0);
  EXPECT_TRUE(good.says("0 tensors")) << good.output;
  space.write("b.safetensors", safetensors(R"({},"__metadata__":{"key":"value"}})", ""));
  EXPECT_EQ(space.hethub("checkpoint inspect b.safetensors").status, 65);
}

TEST(Inspect, sizes_that_lie_are_refused_by_the_official_names) {
  const Workspace space("sizes");
  const std::string good =
      safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good.substr(0, good.size() - 1), "MetadataIncompleteBuffer"},
      {good + "x", "MetadataIncompleteBuffer"},
      {little_endian(100000001) + "{}", "HeaderTooLarge"},
      {little_endian(std::uint64_t{1} << 63) + "{}", "HeaderTooLarge"},
      {little_endian(3) + "{}", "InvalidHeaderLength"},
      {"1234567", "HeaderTooSmall"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,2],)"
                   R"("data_offsets":[0,8]}})",
                   "12345678"),
       "ValidationOverflow"}};
  for (const auto& [content, name] : cases) {
    space.write("f.safetensors", content);
    const Outcome outcome = space.hethub("checkpoint inspect f.safetensors");
    EXPECT_EQ(outcome.status, 65) << name;
    EXPECT_TRUE(outcome.says(name)) << outcome.output;
  }
}

TEST(Inspect, an_index_cannot_lead_out_of_its_folder) {
  const Workspace space("traversal");
  std::filesystem::create_directories(space.path("hf"));
  space.write("secret.safetensors", safetensors("{}", ""));
  std::filesystem::create_symlink(space.path("secret.safetensors"),
                                  space.path("hf/link.safetensors"));
  space.write("hf/config.json", Workspace::config());
  for (const std::string shard :
       {"../secret.safetensors", "/etc/passwd", "sub/../x.safetensors", "link.safetensors"}) {
    space.write("hf/model.safetensors.index.json",
                R"({"weight_map":{"model.norm.weight":")" + shard + "\"}}");
    const Outcome outcome = space.hethub("checkpoint inspect hf");
    EXPECT_EQ(outcome.status, 65) << shard << outcome.output;
  }
}

TEST(Tokenize, a_tokenizer_that_is_not_there_is_missing_input) {
  const Workspace space("tokenizer");
  space.write("a.txt", "abc");
  const Outcome outcome =
      space.hethub("data tokenize --input a.txt --tokenizer nothing.model -o a");
  EXPECT_EQ(outcome.status, 66) << outcome.output;
}

TEST(Tokenize, an_empty_first_document_counts_and_an_empty_input_is_refused) {
  const Workspace space("empties");
  space.write("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n");
  const Outcome outcome = space.hethub("data tokenize --input a.jsonl --tokenizer bytes -o a");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.says("docs=2 empty=1")) << outcome.output;
  space.write("b.jsonl", "{\"text\":\"\"}\n");
  const Outcome none = space.hethub("data tokenize --input b.jsonl --tokenizer bytes -o b");
  EXPECT_EQ(none.status, 65);
  EXPECT_TRUE(none.says("no tokens")) << none.output;
}

TEST(Tokenize, odd_json_lines_give_the_clean_tokens_and_a_broken_one_its_place) {
  const Workspace space("lines");
  const std::string odd = "\xEF\xBB\xBF{\"text\":\"a\"}\r\n\n{\"text\":\"b\"}";
  space.write("clean.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  space.write("odd.jsonl", odd);
  space.write("zero.jsonl", "");
  const auto tokenize = [&](const std::string& inputs, const std::string& out) {
    return space.hethub("data tokenize --tokenizer bytes --input " + inputs + " -o " + out);
  };
  ASSERT_EQ(tokenize("clean.jsonl", "clean").status, 0);
  ASSERT_EQ(tokenize("odd.jsonl zero.jsonl", "odd").status, 0);
  for (const char* part : {".bin", ".idx"}) {
    EXPECT_EQ(read_file(space.path(std::string("clean") + part)),
              read_file(space.path(std::string("odd") + part)));
  }
  space.write("f.jsonl", odd + "\n{\"text\":");
  const Outcome broken = tokenize("f.jsonl", "f");
  EXPECT_EQ(broken.status, 65);
  EXPECT_TRUE(broken.says("f.jsonl:4:9")) << broken.output;
}

}  // namespace
}  // namespace hethub
