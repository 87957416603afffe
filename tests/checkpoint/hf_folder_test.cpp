#include "hethub/checkpoint/hf_folder.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>

#include "tests/checkpoint/files.h"

namespace hethub {
namespace {

// A file of U8 tensors, each of one letter that is its name's first.
std::string tensors(const std::vector<std::string>& names) {
  std::string header = "{";
  std::string data;
  for (const std::string& name : names) {
    header += text(header.size() > 1 ? "," : "", "\"", name,
                   R"(":{"dtype":"U8","shape":[1],"data_offsets":[)", data.size(), ",",
                   data.size() + 1, "]}");
    data += name[0];
  }
  return safetensors_bytes(header + "}", data);
}

std::string index_with(const std::string& weight_map, const std::string& total = "2") {
  return R"({"metadata":{"total_size":)" + total + R"(},"weight_map":{)" + weight_map + "}}";
}

const std::string kTwoShards = R"("a":"1.safetensors","b":"2.safetensors")";

void put_two_shards(const TemporaryFolder& folder, const std::string& index) {
  put_file(folder / "1.safetensors", tensors({"a"}));
  put_file(folder / "2.safetensors", tensors({"b"}));
  put_file(folder / "model.safetensors.index.json", index);
}

std::string corrupt(const TemporaryFolder& folder) {
  return error_of(ErrorCode::kCorruptData, [&] { HfWeights::open(folder.path()); });
}

TEST(HfFolder, a_golden_folder_lists_its_tensors) {
  const HfWeights weights =
      HfWeights::open(std::filesystem::path(HETHUB_TEST_DATA) / "golden" / "llama");
  EXPECT_EQ(weights.names().size(), 3U + 4 * 9);
  EXPECT_EQ(weights.find("lm_head.weight")->shape, (std::vector<std::int64_t>{256, 64}));
  EXPECT_EQ(weights.find("none"), nullptr);
  EXPECT_TRUE(weights.warnings().empty());
}

TEST(HfFolder, shards_are_found_through_their_index) {
  const TemporaryFolder folder;
  put_two_shards(folder, index_with(kTwoShards));
  const HfWeights weights = HfWeights::open(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  std::vector<std::byte> out(1);
  weights.file_of("b").read("b", out);
  EXPECT_EQ(out[0], std::byte{'b'});
  EXPECT_TRUE(weights.warnings().empty());
  EXPECT_TRUE(
      contains(error_of(ErrorCode::kCorruptData, [&] { weights.file_of("c"); }), "tensor c"));
}

TEST(HfFolder, legacy_rotary_buffers_are_left_out) {
  const TemporaryFolder folder;
  put_file(folder / "model.safetensors",
           tensors({"a", "model.layers.0.self_attn.rotary_emb.inv_freq"}));
  EXPECT_EQ(HfWeights::open(folder.path()).names(), std::vector<std::string>{"a"});
}

TEST(HfFolder, a_folder_without_weights_is_missing_input) {
  const TemporaryFolder folder;
  error_of(ErrorCode::kMissingInput, [&] { HfWeights::open(folder.path()); });
  put_two_shards(folder, index_with(kTwoShards));
  std::filesystem::remove(folder / "2.safetensors");
  error_of(ErrorCode::kMissingInput, [&] { HfWeights::open(folder.path()); });
}

// Whether anything opened `file` while `body` ran.
bool opened_during(const std::filesystem::path& file, const std::function<void()>& body) {
  const int watch = ::inotify_init1(IN_NONBLOCK);
  EXPECT_GE(::inotify_add_watch(watch, file.c_str(), IN_OPEN), 0);
  body();
  std::array<char, 4096> events = {};
  const ssize_t got = ::read(watch, events.data(), events.size());
  ::close(watch);
  return got > 0;
}

TEST(HfFolder, no_index_leads_out_of_the_folder_and_nothing_outside_is_opened) {
  const TemporaryFolder root;
  const auto secret = root / "secret/x.safetensors";
  put_file(secret, tensors({"a"}));
  const auto folder = root / "model";
  put_file(folder / "sub/y.safetensors", tensors({"a"}));
  std::filesystem::create_symlink(secret, folder / "link.safetensors");
  std::filesystem::create_directory_symlink(root / "secret", folder / "linked");
  EXPECT_TRUE(opened_during(secret, [&] { SafetensorsFile::open(secret); }));  // the watch works
  for (const std::string& entry :
       {std::string("../secret/x.safetensors"), secret.string(),
        std::string("sub/../x.safetensors"), std::string("link.safetensors"),
        std::string("sub/y.safetensors"), std::string(".."), std::string(""), std::string("."),
        std::string("linked/x.safetensors"), std::string("a\\u0000b"), std::string("..\\\\x")}) {
    put_file(folder / "model.safetensors.index.json", index_with("\"a\":\"" + entry + "\""));
    EXPECT_FALSE(opened_during(secret, [&] {
      const std::string message =
          error_of(ErrorCode::kCorruptData, [&] { HfWeights::open(folder); });
      EXPECT_TRUE(contains(message, "weight_map entry a is not a plain file name")) << entry;
    }));
  }
}

TEST(HfFolder, a_link_within_the_folder_is_followed) {
  const TemporaryFolder folder;
  put_two_shards(folder, index_with(kTwoShards));
  std::filesystem::rename(folder / "1.safetensors", folder / "blob");
  std::filesystem::create_symlink("blob", folder / "1.safetensors");
  EXPECT_EQ(HfWeights::open(folder.path()).names().size(), 2U);
}

TEST(HfFolder, an_index_that_contradicts_its_shards_is_refused) {
  const TemporaryFolder folder;
  put_two_shards(folder, index_with(kTwoShards + R"(,"c":"1.safetensors")"));
  EXPECT_TRUE(contains(corrupt(folder), "weight_map entry c"));
  put_two_shards(folder, index_with(R"("b":"1.safetensors","a":"2.safetensors")"));
  EXPECT_TRUE(contains(corrupt(folder), "weight_map entry a"));
  put_two_shards(folder, index_with(kTwoShards));
  put_file(folder / "2.safetensors", tensors({"b", "a"}));
  EXPECT_TRUE(contains(corrupt(folder), "in 1.safetensors and in 2.safetensors"));
  for (const std::string& index :
       {std::string("[]"), std::string("{}"), std::string("17"),
        std::string(R"({"weight_map":[]})"), std::string(R"({"weight_map":{"a":1}})"),
        std::string("{\"weight_map\":"), std::string()}) {
    put_two_shards(folder, index);
    corrupt(folder);
  }
}

TEST(HfFolder, extra_tensors_and_a_wrong_total_are_warnings) {
  const TemporaryFolder folder;
  put_two_shards(folder, index_with(kTwoShards, "7"));
  put_file(folder / "2.safetensors", tensors({"b", "extra"}));
  const HfWeights weights = HfWeights::open(folder.path());
  ASSERT_EQ(weights.warnings().size(), 2U);
  EXPECT_TRUE(contains(weights.warnings()[0], "extra"));
  EXPECT_TRUE(contains(weights.warnings()[1], "total_size 7"));
  EXPECT_EQ(weights.names().size(), 2U);
  put_two_shards(folder, index_with(kTwoShards, "2.0"));  // a float, as some writers do
  EXPECT_TRUE(HfWeights::open(folder.path()).warnings().empty());
  put_two_shards(folder, R"({"weight_map":{)" + kTwoShards + "}}");
  EXPECT_TRUE(HfWeights::open(folder.path()).warnings().empty());
}

// A folder with an embedding and, unless it is empty, a head of this one byte.
HfWeights with_head(const TemporaryFolder& folder, const std::string& head) {
  std::string header =
      R"({"model.embed_tokens.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  if (!head.empty()) {
    header += R"(,"lm_head.weight":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})";
  }
  put_file(folder / "model.safetensors", safetensors_bytes(header + "}", "e" + head));
  return HfWeights::open(folder.path());
}

TEST(HfFolder, a_tied_model_without_a_head_takes_the_embedding) {
  const TemporaryFolder folder;
  const HeadSource source = head_source(with_head(folder, ""), {.tied = true});
  EXPECT_EQ(source.name, "model.embed_tokens.weight");
  EXPECT_TRUE(source.warnings.empty());
}

TEST(HfFolder, a_tied_model_with_an_equal_head_is_warned_of_and_a_different_one_refused) {
  const TemporaryFolder folder;
  const HeadSource source = head_source(with_head(folder, "e"), {.tied = true});
  EXPECT_EQ(source.name, "model.embed_tokens.weight");
  EXPECT_EQ(source.warnings.size(), 1U);
  const HfWeights different = with_head(folder, "x");
  EXPECT_TRUE(
      contains(error_of(ErrorCode::kCorruptData, [&] { head_source(different, {.tied = true}); }),
               "lm_head.weight"));
}

TEST(HfFolder, an_untied_model_without_a_head_is_refused_unless_told_to_tie_it) {
  const TemporaryFolder folder;
  EXPECT_EQ(head_source(with_head(folder, "x"), {}).name, "lm_head.weight");
  const HfWeights weights = with_head(folder, "");
  EXPECT_TRUE(contains(error_of(ErrorCode::kCorruptData, [&] { head_source(weights, {}); }),
                       "--tie-missing-head"));
  const HeadSource source = head_source(weights, {.tie_missing_head = true});
  EXPECT_EQ(source.name, "model.embed_tokens.weight");
  EXPECT_EQ(source.warnings.size(), 1U);
}

}  // namespace
}  // namespace hethub
