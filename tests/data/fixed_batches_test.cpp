#include "hethub/data/fixed_batches.h"

#include "tests/data/test_files.h"

namespace hethub {
namespace {

TEST(FixedBatches, sequences_are_read_step_by_step) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("t.json", R"({"batches":[[[0,1,2],[3,4,5]],[[6,7,8],[9,10,11]]]})");
  const FixedBatches batches(path, 12);
  EXPECT_EQ(batches.steps(), 2);
  EXPECT_EQ(batches.batch_size(), 2);
  EXPECT_EQ(batches.sequence_length(), 2);
  for (std::int32_t sample = 0; sample < 4; ++sample) {
    std::vector<std::int32_t> tokens(2);
    std::vector<std::int32_t> labels(2);
    batches.read(sample, tokens, labels);
    EXPECT_EQ(tokens, (std::vector{3 * sample, 3 * sample + 1}));
    EXPECT_EQ(labels, (std::vector{3 * sample + 1, 3 * sample + 2}));
  }
}

TEST(FixedBatches, labels_of_their_own_may_be_ignored_ones) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("t.json", R"({"batches":[[[0,1,2]]],"labels":[[[-100,2]]]})");
  const FixedBatches batches(path, 3);
  std::vector<std::int32_t> tokens(2);
  std::vector<std::int32_t> labels(2);
  batches.read(0, tokens, labels);
  EXPECT_EQ(tokens, (std::vector{0, 1}));
  EXPECT_EQ(labels, (std::vector{kIgnoredLabel, 2}));
}

TEST(FixedBatches, the_stream_ends_with_the_last_sample) {
  const TemporaryFolder folder;
  const FixedBatches batches(folder.write("t.json", R"({"batches":[[[0,1]]]})"), 2);
  std::vector<std::int32_t> token(1);
  EXPECT_EQ(error_of([&] { batches.read(1, token, token); }).code(), ErrorCode::kInvalidArgument);
}

TEST(FixedBatches, uneven_lists_and_ids_out_of_range_are_named) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "no \"batches\""},
      {R"([])", "no \"batches\""},
      {R"({"batches":[]})", "batches, found a list of 0"},
      {R"({"batches":7})", "batches, found number"},
      {R"({"batches":[[[0,1],[1]]]})", "batches[0][1], found a list of 1, expected a list of 2"},
      {R"({"batches":[[[0,1]],[[0,1],[1,0]]]})", "batches[1], found a list of 2"},
      {R"({"batches":[[[0,9]]]})", "batches[0][0][1], found 9"},
      {R"({"batches":[[[0,-100]]]})", "batches[0][0][1], found -100"},
      {R"({"batches":[[[0,1.5]]]})", "batches[0][0][1], found 1.5"},
      {R"({"batches":[[[0]]]})", "at least 2"},
      {R"({"batches":[[[0,1]]],"labels":[[[5]]]})", "labels[0][0][0], found 5"},
      {R"({"batches":[[[0,1]]],"labels":[[[1,1]]]})", "labels, found [1][1][2]"},
  };
  for (const auto& [content, message] : cases) {
    const std::string path = folder.write("t.json", content);
    const Error error = error_of([&] { FixedBatches(path, 3); });
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << content;
    EXPECT_TRUE(holds(error.what(), message)) << content;
  }
}

}  // namespace
}  // namespace hethub
