#include "hethub/data/baselines.h"

#include <cmath>

#include "hethub/data/fixed_batches.h"
#include "hethub/data/token_dataset.h"
#include "tests/data/test_files.h"

namespace hethub {
namespace {

FixedBatches batches_of(const TemporaryFolder& folder, const std::string& rows,
                        std::int64_t vocabulary_size) {
  return {folder.write("t.json", "{\"batches\":[" + rows + "]}"), vocabulary_size};
}

// Training pairs: 0>1, 1>0, 0>1, 1>1. Labels: 1 three times, 0 once, N = 4, V = 3.
TEST(Baselines, a_small_text_gives_the_numbers_worked_out_by_hand) {
  const TemporaryFolder folder;
  const FixedBatches training = batches_of(folder, "[[0,1,0,1,1]]", 3);
  const FixedBatches held_out = batches_of(folder, "[[1,0,2]]", 3);
  const Baselines found = baselines_of(training, held_out, 3);
  const double p0 = 2.0 / 7;
  const double p2 = 1.0 / 7;
  EXPECT_NEAR(found.unigram, -(std::log(p0) + std::log(p2)) / 2, 1e-12);
  // 1>0 was seen once of two times, 0>2 never: λ = 0.5 suits best.
  EXPECT_NEAR(found.bigram, -(std::log(0.5 * 0.5 + 0.5 * p0) + std::log(0.5 * p2)) / 2, 1e-12);
  EXPECT_EQ(found.bigram_weight, 0.5);
  EXPECT_EQ(found.training_tokens, 4);
  EXPECT_EQ(found.held_out_tokens, 2);
}

TEST(Baselines, after_a_token_never_seen_the_bigram_model_is_the_unigram_model) {
  const TemporaryFolder folder;
  const FixedBatches training = batches_of(folder, "[[0,1,0]]", 3);
  const FixedBatches held_out = batches_of(folder, "[[2,1]]", 3);
  const Baselines found = baselines_of(training, held_out, 3);
  EXPECT_NEAR(found.unigram, -std::log(2.0 / 5), 1e-12);
  EXPECT_NEAR(found.bigram, found.unigram, 1e-12);
}

TEST(Baselines, a_vocabulary_that_no_model_has_is_refused_before_memory_is_taken) {
  const TemporaryFolder folder;
  const FixedBatches some = batches_of(folder, "[[0,1,0]]", 3);
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    EXPECT_THROW(baselines_of(some, some, size), Error) << size;
  }
}

// One successor for each token: the bigram model knows all but 1-λ of it.
TEST(Baselines, a_cycle_is_certain_to_the_bigram_model_and_uniform_to_the_unigram_model) {
  const TemporaryFolder folder;
  for (const std::int32_t vocabulary : {10, 3000}) {  // dense counts and sparse ones
    std::vector<std::int32_t> cycle;
    for (std::int32_t token = 0; token < vocabulary * 20 + 1; ++token) {
      cycle.push_back(token % vocabulary);
    }
    write_dataset(folder.path("d"), TokenType::kU16, {cycle});
    const TokenDatasetOptions options = {.prefix = folder.path("d"),
                                         .sequence_length = vocabulary,
                                         .vocabulary_size = vocabulary,
                                         .held_out_fraction = 0.2};
    TokenDatasetOptions held_out = options;
    held_out.split = Split::kHeldOut;
    const Baselines found = baselines_of(TokenDataset(options), TokenDataset(held_out), vocabulary);
    EXPECT_NEAR(found.unigram, std::log(vocabulary), 1e-9);
    EXPECT_NEAR(found.bigram, -std::log(0.999 + 0.001 / vocabulary), 1e-9);
    EXPECT_EQ(found.training_tokens, 16 * vocabulary);
    EXPECT_EQ(found.held_out_tokens, 4 * vocabulary);
    const Baselines first =
        baselines_of(TokenDataset(options), TokenDataset(held_out), vocabulary, 1);
    EXPECT_EQ(first.held_out_tokens, vocabulary);
  }
}

}  // namespace
}  // namespace hethub
