#include <map>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "hethub/checkpoint/folder.h"
#include "hethub/checkpoint/reader.h"
#include "hethub/checkpoint/writer.h"
#include "tests/checkpoint/files.h"

namespace hethub {
namespace {

constexpr TensorRole kParameter = TensorRole::kParameter;

std::vector<LogicalTensor> model() {
  std::vector<LogicalTensor> tensors;
  for (const TensorRole role :
       {TensorRole::kParameter, TensorRole::kFirstMoment, TensorRole::kSecondMoment}) {
    tensors.push_back({.name = "embed", .role = role, .shape = {16, 8}});
    tensors.push_back({.name = "norm", .role = role, .shape = {8}});
    tensors.push_back({.name = "scalar", .role = role, .dtype = DType::kF64, .shape = {}});
  }
  return tensors;
}

// The bytes of an element, a function of what it is and of the step.
std::vector<std::byte> bytes_of(const LogicalTensor& tensor, std::int64_t element,
                                std::int64_t step) {
  const double value = static_cast<double>(element + 1000 * step) +
                       0.25 * static_cast<double>(tensor.role) +
                       0.0625 * static_cast<double>(tensor.name.size());
  std::vector<std::byte> out(static_cast<std::size_t>(size_of(tensor.dtype)));
  const auto narrow = static_cast<float>(value);
  std::memcpy(out.data(), tensor.dtype == DType::kF64 ? static_cast<const void*>(&value) : &narrow,
              out.size());
  return out;
}

using Layout = std::vector<std::vector<OwnedRange>>;  // of each rank

// Cuts every tensor at random places and deals the parts to the ranks.
Layout random_layout(std::size_t ranks, unsigned seed) {
  std::mt19937 random(seed);
  Layout layout(ranks);
  for (const LogicalTensor& tensor : model()) {
    std::int64_t first = 0;
    while (first < tensor.elements()) {
      const std::int64_t most = tensor.elements() - first;
      const std::int64_t count = 1 + static_cast<std::int64_t>(random()) % most;
      layout[random() % ranks].push_back({.tensor = tensor, .first = first, .count = count});
      first += count;
    }
  }
  return layout;
}

struct SaveOptions {
  std::int64_t step = 10;
  int keep_last = 2;
  ShardOptions shard = {.staging_bytes = 24};  // pieces that do not divide anything
  std::function<void(std::string_view)> after = {};
};

void save(const std::filesystem::path& dir, const Layout& layout, const SaveOptions& options) {
  std::vector<ShardRecord> records;
  for (std::size_t rank = 0; rank < layout.size(); ++rank) {
    const auto& ranges = layout[rank];
    const auto fetch = [&](std::size_t range, std::int64_t first, std::int64_t count,
                           std::span<std::byte> out) {
      const LogicalTensor& tensor = ranges[range].tensor;
      ASSERT_EQ(static_cast<std::int64_t>(out.size()), count * size_of(tensor.dtype));
      for (std::int64_t element = first; element < first + count; ++element) {
        const auto bytes = bytes_of(tensor, element, options.step);
        std::copy(bytes.begin(), bytes.end(),
                  out.begin() + (element - first) * size_of(tensor.dtype));
      }
    };
    const ShardRecord record =
        write_shard({.dir = dir, .step = options.step, .rank = static_cast<int>(rank)}, ranges,
                    fetch, options.shard);
    records.push_back(record_from(to_text(record), "a record"));
  }
  const CheckpointFacts facts = {.step = options.step,
                                 .next_sample = 32 * options.step,
                                 .seeds = {{"weights", ~std::uint64_t{0}}, {"data", 7}},
                                 .counters = {{"tokens", 123}},
                                 .optimizer = {{"lr", 1e-3}, {"beta2", 0.95}},
                                 .plan_hash = "abc",
                                 .model_config = R"({"unknown":{"kept":[1,2.5,null]},"a":1})"};
  commit_checkpoint(dir, facts, model(), records,
                    {.keep_last = options.keep_last, .after = options.after});
}

void expect_whole(const Checkpoint& checkpoint, std::int64_t step) {
  checkpoint.check_tensors(model());
  EXPECT_EQ(checkpoint.facts().step, step);
  for (const LogicalTensor& tensor : model()) {
    std::vector<std::byte> expected;
    for (std::int64_t element = 0; element < tensor.elements(); ++element) {
      const auto bytes = bytes_of(tensor, element, step);
      expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    std::vector<std::byte> out(expected.size());
    checkpoint.read(tensor.name, tensor.role, 0, tensor.elements(), out);
    EXPECT_EQ(out, expected) << label_of(tensor);
  }
}

std::int64_t latest_step(const std::filesystem::path& dir) {
  const auto latest = find_latest(dir);
  return latest.found ? latest.found->step : -1;
}

std::set<std::string> names_in(const std::filesystem::path& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(Checkpoint, what_any_layout_saves_any_layout_reads) {
  for (const std::size_t ranks : {1U, 2U, 3U, 7U}) {
    const TemporaryFolder dir;
    save(dir.path(), random_layout(ranks, static_cast<unsigned>(ranks)), {});
    const Checkpoint checkpoint = Checkpoint::open(dir / "step-00000010");
    expect_whole(checkpoint, 10);
    for (unsigned seed = 100; seed < 105; ++seed) {
      for (const auto& rank : random_layout(4, seed)) {
        for (const OwnedRange& range : rank) {
          const auto size = static_cast<std::size_t>(size_of(range.tensor.dtype));
          std::vector<std::byte> out(static_cast<std::size_t>(range.count) * size);
          checkpoint.read(range.tensor.name, range.tensor.role, range.first, range.count, out);
          for (std::int64_t element = 0; element < range.count; ++element) {
            const auto expected = bytes_of(range.tensor, range.first + element, 10);
            EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                                   out.begin() + element * static_cast<std::int64_t>(size)));
          }
        }
      }
    }
  }
}

TEST(Checkpoint, the_facts_of_the_run_come_back) {
  const TemporaryFolder dir;
  save(dir.path(), random_layout(2, 1), {});
  const CheckpointFacts facts = Checkpoint::open(dir / "step-00000010").facts();
  EXPECT_EQ(facts.next_sample, 320);
  EXPECT_EQ(facts.seeds.at("weights"), ~std::uint64_t{0});
  EXPECT_EQ(facts.counters.at("tokens"), 123);
  EXPECT_EQ(facts.optimizer.at("lr"), 1e-3);
  EXPECT_EQ(facts.plan_hash, "abc");
  EXPECT_TRUE(contains(facts.model_config, "\"kept\""));
}

TEST(Checkpoint, a_tensor_too_few_too_many_or_different_is_counted_and_named) {
  const TemporaryFolder dir;
  save(dir.path(), random_layout(2, 1), {});
  const Checkpoint checkpoint = Checkpoint::open(dir / "step-00000010");
  auto tensors = model();
  tensors.pop_back();
  const auto refused = [&] {
    return error_of(ErrorCode::kCorruptData, [&] { checkpoint.check_tensors(tensors); });
  };
  EXPECT_TRUE(contains(refused(), "unknown: 1 (scalar (v))"));
  tensors = model();
  tensors.push_back({.name = "new", .role = TensorRole::kFirstMoment, .shape = {1}});
  EXPECT_TRUE(contains(refused(), "missing: 1 (new (m))"));
  tensors = model();
  tensors[1].shape = {4, 2};
  EXPECT_TRUE(contains(refused(), "different: 1 (norm f32 [8] for norm f32 [4, 2])"));
  std::vector<std::byte> out(4);
  error_of(ErrorCode::kCorruptData, [&] { checkpoint.read("new", kParameter, 0, 1, out); });
  error_of(ErrorCode::kInvalidArgument, [&] { checkpoint.read("norm", kParameter, 8, 1, out); });
  error_of(ErrorCode::kInvalidArgument, [&] { checkpoint.read("norm", kParameter, 0, 2, out); });
}

TEST(Checkpoint, a_range_written_by_nobody_or_twice_is_never_committed) {
  const TemporaryFolder dir;
  Layout layout = random_layout(2, 1);
  const OwnedRange last = layout[1].back();
  layout[1].pop_back();
  error_of(ErrorCode::kInternal, [&] { save(dir.path(), layout, {}); });
  layout[1].push_back(last);
  layout[0].push_back(last);
  error_of(ErrorCode::kInternal, [&] { save(dir.path(), layout, {}); });
  layout[0].back().tensor.name = "unknown";
  error_of(ErrorCode::kInternal, [&] { save(dir.path(), layout, {}); });
  EXPECT_EQ(latest_step(dir.path()), -1);
}

TEST(Checkpoint, a_rank_whose_shard_is_not_in_the_folder_is_named) {
  const TemporaryFolder dir;
  const std::vector<ShardRecord> records = {
      write_shard({.dir = dir.path(), .step = 1, .rank = 0}, {}, {}),
      {.file = {.name = "shard-1.safetensors", .bytes = 16}}};
  EXPECT_TRUE(contains(error_of(ErrorCode::kCannotWrite,
                                [&] { commit_checkpoint(dir.path(), {.step = 1}, {}, records); }),
                       "shard-1.safetensors"));
}

struct Killed {};

TEST(Checkpoint, a_kill_at_any_byte_leaves_the_last_good_one) {
  const Layout layout = random_layout(3, 5);
  std::int64_t written = 0;
  {
    const TemporaryFolder dir;
    SaveOptions count = {};
    count.shard.after_bytes = [&](std::int64_t, std::int64_t) { ++written; };
    save(dir.path(), layout, count);
  }
  ASSERT_GT(written, 20);
  for (std::int64_t kill = 1; kill <= written; kill += 1 + written / 8) {
    const TemporaryFolder dir;
    save(dir.path(), layout, {.step = 10, .keep_last = 1});
    std::int64_t calls = 0;
    SaveOptions options = {.step = 20, .keep_last = 1};
    options.shard.after_bytes = [&](std::int64_t done, std::int64_t total) {
      EXPECT_LE(done, total);
      if (++calls == kill) throw Killed();
    };
    EXPECT_THROW(save(dir.path(), layout, options), Killed);
    const LatestCheckpoint latest = find_latest(dir.path());
    ASSERT_TRUE(latest.found.has_value());
    EXPECT_EQ(latest.ignored, std::vector<std::string>{"ignored step-20: incomplete (no COMMIT)"});
    expect_whole(Checkpoint::open(latest.found->folder), 10);
    EXPECT_TRUE(
        contains(error_of(ErrorCode::kCorruptData, [&] { resolve_checkpoint(dir / "step-20"); }),
                 "incomplete (no COMMIT)"));
    error_of(ErrorCode::kCorruptData, [&] { Checkpoint::open(dir / "step-00000020.tmp"); });
    // Another layout replaces what was left.
    save(dir.path(), random_layout(2, 6), {.step = 20, .keep_last = 1});
    EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"step-00000020"});
    expect_whole(Checkpoint::open(resolve_checkpoint(dir / "step-20")), 20);
  }
}

TEST(Checkpoint, a_kill_after_any_action_of_the_commit_leaves_a_good_one) {
  for (const std::string kill : {"manifest", "set aside", "rename", "remove"}) {
    for (const bool again : {false, true}) {  // whether step 20 was saved before
      if (kill == "set aside" && !again) continue;
      const TemporaryFolder dir;
      save(dir.path(), random_layout(2, 1), {.step = 10, .keep_last = 2});
      if (again) save(dir.path(), random_layout(2, 2), {.step = 20, .keep_last = 2});
      bool killed = false;
      const auto after = [&](std::string_view action) {
        if (action == kill) {
          killed = true;
          throw Killed();
        }
      };
      const SaveOptions options = {.step = 20, .keep_last = 1, .after = after};
      EXPECT_THROW(save(dir.path(), random_layout(3, 3), options), Killed) << kill;
      EXPECT_TRUE(killed);
      const auto latest = find_latest(dir.path());
      ASSERT_TRUE(latest.found.has_value()) << kill;
      EXPECT_EQ(latest.found->step, kill == "manifest" && !again ? 10 : 20) << kill;
      expect_whole(Checkpoint::open(latest.found->folder), latest.found->step);
      save(dir.path(), random_layout(3, 3), {.step = 20, .keep_last = 1});
      EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"step-00000020"}) << kill;
    }
  }
}

TEST(Checkpoint, the_newest_are_kept_and_newer_ones_left_alone) {
  const TemporaryFolder dir;
  for (const std::int64_t step : {10, 20, 30, 40}) {
    save(dir.path(), random_layout(1, 1), {.step = step, .keep_last = 2});
  }
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000030", "step-00000040"}));
  save(dir.path(), random_layout(1, 1), {.step = 35, .keep_last = 1});
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000035", "step-00000040"}));
  error_of(ErrorCode::kInvalidArgument,
           [&] { save(dir.path(), random_layout(1, 1), {.step = 50, .keep_last = 0}); });
}

TEST(Checkpoint, a_damaged_one_is_passed_over_with_its_fault) {
  const TemporaryFolder dir;
  const std::set<std::string> others = {"step-", "step-x", "step-00000099.copy", "notes"};
  for (const std::int64_t step : {10, 20, 30}) {
    save(dir.path(), random_layout(2, 1), {.step = step, .keep_last = 9});
  }
  for (const std::string& name : others) {
    std::filesystem::create_directory(dir / name);
  }
  std::filesystem::resize_file(dir / "step-00000030" / "shard-1.safetensors", 9);
  std::filesystem::remove(dir / "step-00000020" / kManifestName);
  const LatestCheckpoint latest = find_latest(dir.path());
  EXPECT_EQ(latest.found->step, 10);
  ASSERT_EQ(latest.ignored.size(), 2U);
  EXPECT_TRUE(contains(latest.ignored[0], "ignored step-30: shard-1.safetensors has 9 of"));
  EXPECT_EQ(latest.ignored[1], "ignored step-20: incomplete (no COMMIT)");
  error_of(ErrorCode::kCorruptData, [&] { Checkpoint::open(dir / "step-00000030"); });
  EXPECT_EQ(resolve_checkpoint(dir.path()), dir / "step-00000010");
  error_of(ErrorCode::kMissingInput, [&] { resolve_checkpoint(dir / "step-40"); });
  EXPECT_FALSE(find_latest(dir / "none").found.has_value());
}

TEST(Checkpoint, a_changed_byte_of_the_data_is_found_by_verify) {
  const TemporaryFolder dir;
  save(dir.path(), random_layout(2, 1), {});
  const auto shard = dir / "step-00000010/shard-0.safetensors";
  EXPECT_TRUE(Checkpoint::open(dir / "step-00000010").verify().empty());
  std::string content = read_file(shard);
  content.back() = static_cast<char>(content.back() ^ 1);
  put_file(shard, content);
  const auto faults = Checkpoint::open(dir / "step-00000010").verify();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_TRUE(contains(faults[0], "shard-0.safetensors"));
}

// Changes one text of the manifest and says how opening it fails.
std::string damaged(const TemporaryFolder& dir, const std::string& from, const std::string& to) {
  const auto file = dir / "step-00000010/manifest.json";
  const std::string good = read_file(file);
  std::string bad = good;
  EXPECT_NE(bad.find(from), std::string::npos) << from;
  put_file(file, bad.replace(bad.find(from), from.size(), to));
  const std::string message =
      error_of(ErrorCode::kCorruptData, [&] { Checkpoint::open(dir / "step-00000010"); });
  put_file(file, good);
  return message;
}

TEST(Checkpoint, a_manifest_that_lies_is_refused) {
  const TemporaryFolder dir;
  save(dir.path(), random_layout(2, 1), {});
  EXPECT_TRUE(contains(damaged(dir, "checkpoint/1", "checkpoint/2"), "format"));
  EXPECT_TRUE(contains(damaged(dir, "\"step\": 10", "\"step\": -1"), "step"));
  EXPECT_TRUE(contains(damaged(dir, "\"step\": 10", "\"step\": \"10\""), "step"));
  EXPECT_TRUE(contains(damaged(dir, "\"shard-0.safetensors\"", "\"../x\""), "plain file name"));
  EXPECT_TRUE(contains(damaged(dir, "\"shape\": [\n    16,", "\"shape\": [\n    17,"), "element"));
  damaged(dir, "\"shape\": [\n    16,", "\"shape\": [\n    9223372036854775807,");
  damaged(dir, "\"shape\": [\n    16,", "\"shape\": [\n    -16,");
  damaged(dir, "\"role\": \"m\"", "\"role\": \"parameter\"");  // twice the same tensor
  damaged(dir, "\"role\": \"m\"", "\"role\": \"q\"");
  damaged(dir, "\"dtype\": \"f32\"", "\"dtype\": \"bf16\"");
  damaged(dir, "\"dtype\": \"f32\"", "\"dtype\": \"f31\"");
  damaged(dir, "\"first\": 0", "\"first\": 1");
  damaged(dir, "\"pieces\"", "\"parts\"");
  damaged(dir, "\"weights\": 18446744073709551615", "\"weights\": 1.5");
  damaged(dir, "{", "");
}

TEST(Checkpoint, a_manifest_with_random_changes_is_read_or_refused_and_never_crashes) {
  const TemporaryFolder dir;
  save(dir.path(), random_layout(2, 1), {});
  const std::string good = read_file(dir / "step-00000010/manifest.json");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bad = good;
    const std::size_t place = random() % bad.size();
    switch (random() % 3) {
      case 0:
        bad[place] = static_cast<char>(random());
        break;
      case 1:
        bad.erase(place, 1 + random() % 30);
        break;
      case 2:
        bad.insert(place, 1, "0123456789[]{},:\"-"[random() % 18]);
        break;
    }
    try {
      Manifest manifest = manifest_from(bad, "m");
      check_coverage(manifest, ErrorCode::kCorruptData, "m");
    } catch (const Error& error) {
      EXPECT_EQ(name_of(error.code()), "corrupt_data") << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace hethub
