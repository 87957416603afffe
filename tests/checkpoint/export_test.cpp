#include "hethub/checkpoint/export.h"

#include <gtest/gtest.h>

#include "hethub/checkpoint/hf_folder.h"
#include "hethub/checkpoint/inspect.h"
#include "hethub/checkpoint/writer.h"
#include "tests/checkpoint/files.h"

namespace hethub {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(HETHUB_TEST_DATA) / "golden";

// Saves the weights of a Hugging Face folder as a checkpoint of one rank with moments of zero.
Checkpoint checkpoint_of(const std::filesystem::path& hugging_face,
                         const std::filesystem::path& dir) {
  const HfWeights weights = HfWeights::open(hugging_face);
  std::vector<OwnedRange> ranges;
  std::vector<LogicalTensor> tensors;
  for (const std::string& name : weights.names()) {
    for (const TensorRole role : {TensorRole::kParameter, TensorRole::kFirstMoment}) {
      tensors.push_back({.name = name, .role = role, .shape = weights.find(name)->shape});
      ranges.push_back({.tensor = tensors.back(), .count = tensors.back().elements()});
    }
  }
  const auto fetch = [&](std::size_t range, std::int64_t first, std::int64_t count,
                         std::span<std::byte> out) {
    const LogicalTensor& tensor = ranges[range].tensor;
    std::fill(out.begin(), out.end(), std::byte{0});
    if (tensor.role != TensorRole::kParameter) return;
    weights.file_of(tensor.name).read_range(tensor.name, first, count, out);
  };
  const ShardRecord record = write_shard({.dir = dir, .step = 5, .rank = 0}, ranges, fetch);
  return Checkpoint::open(
      commit_checkpoint(dir, {.step = 5, .model_config = read_file(hugging_face / "config.json")},
                        tensors, {record}));
}

std::vector<float> values_of(const HfWeights& weights, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(weights.find(name)->elements()));
  weights.file_of(name).read_f32(name, 0, values);
  return values;
}

void expect_same(const std::filesystem::path& a, const std::filesystem::path& b) {
  const HfWeights one = HfWeights::open(a);
  const HfWeights other = HfWeights::open(b);
  EXPECT_EQ(one.names(), other.names());
  for (const std::string& name : one.names()) {
    EXPECT_EQ(one.find(name)->shape, other.find(name)->shape) << name;
    EXPECT_EQ(values_of(one, name), values_of(other, name)) << name;
  }
  EXPECT_TRUE(other.warnings().empty());
}

TEST(Export, gives_back_the_weights_and_every_key_of_the_config) {
  for (const std::string set : {"llama", "qwen2"}) {
    const TemporaryFolder dir;
    const Checkpoint checkpoint = checkpoint_of(kGolden / set, dir / "run");
    export_hugging_face(checkpoint, dir / "hf", {.staging_bytes = 1000});
    expect_same(kGolden / set, dir / "hf");
    const std::string config = read_file(dir / "hf" / "config.json");
    for (const std::string key : {"use_cache", "attention_dropout", "initializer_range"}) {
      EXPECT_TRUE(contains(config, "\"" + key + "\"")) << key;
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "hf.tmp"));
  }
}

TEST(Export, splits_large_weights_with_an_index) {
  const TemporaryFolder dir;
  const Checkpoint checkpoint = checkpoint_of(kGolden / "llama", dir / "run");
  export_hugging_face(checkpoint, dir / "hf", {.most_file_bytes = 100'000});
  EXPECT_FALSE(std::filesystem::exists(dir / "hf" / "model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(dir / "hf" / "model.safetensors.index.json"));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "hf")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    EXPECT_LT(entry.file_size(), 105'000U);
  }
  EXPECT_GE(files, 9);
  expect_same(kGolden / "llama", dir / "hf");
}

TEST(Export, leaves_the_head_of_a_tied_model_out) {
  const TemporaryFolder dir;
  const auto source = dir / "source";
  std::filesystem::copy(kGolden / "llama", source, std::filesystem::copy_options::recursive);
  put_file(source / "config.json", R"({"tie_word_embeddings": true, "mine": 1})");
  export_hugging_face(checkpoint_of(source, dir / "run"), dir / "hf");
  const HfWeights weights = HfWeights::open(dir / "hf");
  EXPECT_EQ(weights.find("lm_head.weight"), nullptr);
  EXPECT_NE(weights.find("model.embed_tokens.weight"), nullptr);
}

TEST(Export, refuses_a_folder_in_use_and_a_damaged_checkpoint) {
  const TemporaryFolder dir;
  const Checkpoint checkpoint = checkpoint_of(kGolden / "llama", dir / "run");
  put_file(dir / "hf/mine", "1");
  error_of(ErrorCode::kCannotWrite, [&] { export_hugging_face(checkpoint, dir / "hf"); });
  const auto shard = checkpoint.folder() / "shard-0.safetensors";
  std::string content = read_file(shard);
  content.back() = static_cast<char>(content.back() ^ 1);
  put_file(shard, content);
  EXPECT_TRUE(contains(
      error_of(ErrorCode::kCorruptData, [&] { export_hugging_face(checkpoint, dir / "other"); }),
      "checksum"));
  EXPECT_FALSE(std::filesystem::exists(dir / "other"));
}

TEST(Inspect, shows_every_kind_of_thing) {
  const TemporaryFolder dir;
  put_file(dir / "empty", safetensors_bytes(R"({"__metadata__":{"key":"value"}})"));
  EXPECT_TRUE(contains(inspect(dir / "empty", false), "0 tensors"));
  EXPECT_TRUE(contains(inspect(dir / "empty", false), "key: value"));
  EXPECT_TRUE(contains(inspect(kGolden / "llama", false), "lm_head.weight  F32  [256, 64]"));
  const Checkpoint checkpoint = checkpoint_of(kGolden / "llama", dir / "run");
  for (const auto& path : {dir / "run", dir / "run/step-5", checkpoint.folder()}) {
    EXPECT_TRUE(contains(inspect(path, false), "step: 5")) << path;
    EXPECT_TRUE(contains(inspect(path, true), "\"name\": \"lm_head.weight (m)\"")) << path;
  }
  error_of(ErrorCode::kMissingInput, [&] { inspect(dir / "none", false); });
}

}  // namespace
}  // namespace hethub
