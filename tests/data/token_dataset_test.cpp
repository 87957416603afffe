#include "hethub/data/token_dataset.h"

#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "tests/data/test_files.h"

namespace {
thread_local std::int64_t allocations = 0;
}  // namespace

// Counts what the thread allocates, so that a test can say "nothing". Not inlined: the compiler
// would see free() meet a pointer from new, and not that both are replaced.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace hethub {
namespace {

struct Sample {
  std::vector<std::int32_t> tokens = {};
  std::vector<std::int32_t> labels = {};
};

Sample sample_of(const SampleSource& source, std::int64_t sample) {
  const auto length = static_cast<std::size_t>(source.sequence_length());
  Sample out = {.tokens = std::vector<std::int32_t>(length),
                .labels = std::vector<std::int32_t>(length)};
  source.read(sample, out.tokens, out.labels);
  return out;
}

// Tokens 0, 1, 2, ... cut into documents of several lengths, an empty one among them.
void write_counting(const std::string& prefix, std::int32_t tokens) {
  std::vector<std::vector<std::int32_t>> documents;
  for (std::int32_t token = 0; token < tokens;) {
    std::vector<std::int32_t> document(
        static_cast<std::size_t>(std::min(tokens - token, 1 + token % 13)));
    std::iota(document.begin(), document.end(), token);
    token += static_cast<std::int32_t>(document.size());
    documents.push_back(document);
    if (documents.size() == 2) documents.emplace_back();
  }
  write_dataset(prefix, TokenType::kU16, documents);
}

class TokenDatasets : public ::testing::Test {
 protected:
  TokenDatasetOptions options(std::int64_t length, double held_out = 0,
                              Split split = Split::kTraining) const {
    return {.prefix = folder_.path("d"),
            .sequence_length = length,
            .vocabulary_size = 65'536,
            .seed = 5,
            .held_out_fraction = held_out,
            .split = split};
  }

  TemporaryFolder folder_;
};

TEST_F(TokenDatasets, windows_cross_documents_and_labels_follow_their_tokens) {
  for (const std::int32_t tokens : {9, 10, 16, 17, 18, 33, 59}) {
    write_counting(folder_.path("d"), tokens);
    const TokenDataset dataset(options(8));
    ASSERT_EQ(dataset.samples_per_epoch(), (tokens - 1) / 8);
    for (std::int64_t sample = 0; sample < dataset.samples_per_epoch(); ++sample) {
      const Sample read = sample_of(dataset, sample);
      for (std::int32_t at = 0; at < 8; ++at) {
        const auto place = static_cast<std::size_t>(at);
        ASSERT_EQ(read.tokens[place], dataset.id_of(sample) * 8 + at);
        ASSERT_EQ(read.labels[place], read.tokens[place] + 1);
      }
    }
  }
}

TEST_F(TokenDatasets, every_window_is_read_once_an_epoch) {
  write_counting(folder_.path("d"), 801);
  const TokenDataset dataset(options(8));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> windows;
    for (std::int64_t position = 0; position < 100; ++position) {
      windows.insert(dataset.id_of(epoch * 100 + position));
    }
    EXPECT_EQ(windows.size(), 100U);
  }
}

TEST_F(TokenDatasets, held_out_windows_are_the_last_and_no_label_of_theirs_is_trained_on) {
  write_counting(folder_.path("d"), 801);
  for (const double fraction : {0.001, 0.1, 0.25, 0.5, 0.99}) {
    const TokenDataset training(options(8, fraction));
    const TokenDataset held_out(options(8, fraction, Split::kHeldOut));
    ASSERT_EQ(training.samples_per_epoch() + held_out.samples_per_epoch(), 100);
    std::set<std::int32_t> trained;
    for (std::int64_t sample = 0; sample < 2 * training.samples_per_epoch(); ++sample) {
      const Sample read = sample_of(training, sample);
      trained.insert(read.labels.begin(), read.labels.end());
    }
    for (std::int64_t sample = 0; sample < held_out.samples_per_epoch(); ++sample) {
      ASSERT_EQ(held_out.id_of(sample), training.samples_per_epoch() + sample);
      for (const std::int32_t label : sample_of(held_out, sample).labels) {
        ASSERT_EQ(trained.count(label), 0U) << fraction;
      }
    }
    EXPECT_EQ(held_out.id_of(held_out.samples_per_epoch()), held_out.id_of(0));
  }
}

// 64 samples, batches of 4, stopped after step 19 of 40: the second epoch begins at step 16.
TEST_F(TokenDatasets, a_resumed_run_reads_the_samples_that_the_unbroken_one_would_have) {
  write_counting(folder_.path("d"), 64 * 8 + 1);
  const auto ids_of_step = [](const TokenDataset& dataset, std::int64_t step, std::int64_t ranks) {
    std::vector<std::int64_t> ids;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const IndexRange share = part_of(4, ranks, rank);
      for (std::int64_t sample = share.begin; sample < share.end; ++sample) {
        ids.push_back(dataset.id_of(step * 4 + sample));
      }
    }
    return ids;
  };
  const TokenDataset unbroken(options(8));
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    const TokenDataset resumed(options(8));
    for (std::int64_t step = 20; step < 40; ++step) {
      ASSERT_EQ(ids_of_step(resumed, step, ranks), ids_of_step(unbroken, step, 2));
    }
  }
}

TEST_F(TokenDatasets, reading_allocates_nothing) {
  write_counting(folder_.path("d"), 40'001);
  const TokenDataset dataset(options(20'000));
  Sample sample = sample_of(dataset, 0);
  const std::int64_t before = allocations;
  dataset.read(1, sample.tokens, sample.labels);
  EXPECT_EQ(allocations, before);
  sample = sample_of(dataset, 0);
  EXPECT_GT(allocations, before) << "the count does not count";
}

TEST_F(TokenDatasets, several_threads_read_the_same_samples) {
  write_counting(folder_.path("d"), 8001);
  const TokenDataset dataset(options(8));
  std::vector<std::vector<std::int32_t>> firsts(4);
  std::vector<std::thread> threads;
  for (auto& first : firsts) {
    threads.emplace_back([&] {
      for (std::int64_t sample = 0; sample < 1000; ++sample) {
        first.push_back(sample_of(dataset, sample).tokens.front());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& first : firsts) {
    EXPECT_EQ(first, firsts.front());
  }
}

TEST_F(TokenDatasets, too_little_text_is_refused_with_the_tokens_needed) {
  write_counting(folder_.path("d"), 8);
  const Error error = error_of([&] { TokenDataset(options(8)); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
  EXPECT_TRUE(holds(error.what(), "at least 9 tokens"));
  write_counting(folder_.path("d"), 9);
  EXPECT_EQ(error_of([&] { TokenDataset(options(8, 0.5)); }).code(), ErrorCode::kInvalidConfig);
  const auto held_out = options(8, 0, Split::kHeldOut);
  EXPECT_TRUE(holds(error_of([&] { TokenDataset{held_out}; }).what(), "fraction over 0"));
}

TEST_F(TokenDatasets, options_out_of_range_are_refused) {
  write_counting(folder_.path("d"), 100);
  EXPECT_EQ(error_of([&] { TokenDataset(options(0)); }).code(), ErrorCode::kInvalidConfig);
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    EXPECT_EQ(error_of([&] { TokenDataset(options(8, fraction)); }).code(),
              ErrorCode::kInvalidConfig);
  }
}

TEST_F(TokenDatasets, a_token_out_of_the_vocabulary_is_refused_when_it_is_read) {
  write_dataset(folder_.path("d"), TokenType::kU16, {{1, 2, 256}});
  TokenDatasetOptions small = options(2);
  small.vocabulary_size = 256;
  const TokenDataset dataset(small);
  const Error error = error_of([&] { sample_of(dataset, 0); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(holds(error.what(), "d.bin: token 2"));
}

}  // namespace
}  // namespace hethub
