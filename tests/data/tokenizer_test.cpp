#include "hethub/data/tokenizer.h"

#include "tests/data/test_files.h"

namespace hethub {
namespace {

std::vector<std::int32_t> tokens_of(const Tokenizer& tokenizer, std::string_view words) {
  std::vector<std::int32_t> tokens;
  tokenizer.append_tokens(words, tokens);
  return tokens;
}

TEST(Tokenizer, bytes_are_their_own_ids_and_256_ends_a_document) {
  const auto tokenizer = make_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocabulary_size(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  EXPECT_EQ(tokens_of(*tokenizer, "aé\n"), (std::vector<std::int32_t>{97, 0xC3, 0xA9, 10}));
}

// tiny.model is a BPE model of 90 pieces that spm_train 0.1.97 made of seven sentences; the ids are
// what spm_encode --output_format=id prints for it.
TEST(Tokenizer, a_sentencepiece_model_gives_the_ids_of_spm_encode) {
  const auto tokenizer = make_tokenizer(HETHUB_TEST_DATA "/sentencepiece/tiny.model");
  EXPECT_EQ(tokenizer->vocabulary_size(), 90);
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  EXPECT_EQ(tokens_of(*tokenizer, "The quick dog reads a größer book."),
            (std::vector<std::int32_t>{47, 52, 85, 68, 58, 64, 71, 48, 31, 4,
                                       38, 56, 89, 88, 3,  13, 59, 59, 71, 67}));
  EXPECT_EQ(tokens_of(*tokenizer, "Zebra 9"),
            (std::vector<std::int32_t>{52, 0, 53, 66, 56, 54, 52, 0}));
}

TEST(Tokenizer, a_file_that_is_no_model_is_corrupt_and_a_missing_one_missing) {
  const TemporaryFolder folder;
  const std::string junk = folder.write("junk.model", "this is no model");
  EXPECT_EQ(error_of([&] { make_tokenizer(junk); }).code(), ErrorCode::kCorruptData);
  const std::string empty = folder.write("empty.model", "");
  EXPECT_EQ(error_of([&] { make_tokenizer(empty); }).code(), ErrorCode::kCorruptData);
  EXPECT_EQ(error_of([&] { make_tokenizer(folder.path("none.model")); }).code(),
            ErrorCode::kMissingInput);
}

TEST(Tokenizer, a_tokenizer_json_is_refused_by_name) {
  const Error error = error_of([] { make_tokenizer("models/tokenizer.json"); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(holds(error.what(), "a tokenizer.json file"));
  EXPECT_EQ(error_of([] { make_tokenizer("byte"); }).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace hethub
