#include "hethub/data/baselines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::array<double, 9> kWeights = {0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999};

// Counts of pairs, dense for a small vocabulary.
class PairCounts {
 public:
  explicit PairCounts(std::int64_t vocabulary_size) : vocabulary_size_(vocabulary_size) {
    constexpr std::int64_t kMostDense = 2048;
    if (vocabulary_size > kMostDense) return;
    dense_.resize(static_cast<std::size_t>(vocabulary_size * vocabulary_size));
  }

  void add(std::int64_t first, std::int64_t second) {
    const auto key = static_cast<std::size_t>(first * vocabulary_size_ + second);
    ++(dense_.empty() ? sparse_[key] : dense_[key]);
  }

  std::int64_t of(std::int64_t first, std::int64_t second) const {
    const auto key = static_cast<std::size_t>(first * vocabulary_size_ + second);
    if (!dense_.empty()) return dense_[key];
    const auto found = sparse_.find(key);
    return found == sparse_.end() ? 0 : found->second;
  }

 private:
  std::int64_t vocabulary_size_;
  std::vector<std::int64_t> dense_;
  std::unordered_map<std::size_t, std::int64_t> sparse_;
};

// Calls use(input, label) for every counted label of the first `samples` samples.
template <typename Use>
void for_each_label(const SampleSource& source, std::int64_t samples, const Use& use) {
  const auto length = static_cast<std::size_t>(source.sequence_length());
  std::vector<std::int32_t> tokens(length);
  std::vector<std::int32_t> labels(length);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    source.read(sample, tokens, labels);
    for (std::size_t at = 0; at < length; ++at) {
      if (labels[at] != kIgnoredLabel) use(tokens[at], labels[at]);
    }
  }
}

}  // namespace

Baselines baselines_of(const SampleSource& training, const SampleSource& held_out,
                       std::int64_t vocabulary_size, std::int64_t held_out_samples) {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // each has two counts here
  require(vocabulary_size >= 1 && vocabulary_size <= kMostTokens,
          {.what = "baselines: vocabulary",
           .found = text(vocabulary_size),
           .expected = text("1 to ", kMostTokens, " tokens"),
           .fix = "pass the vocab_size of the model"});
  Baselines out;
  std::vector<std::int64_t> inputs(static_cast<std::size_t>(vocabulary_size));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(vocabulary_size));
  PairCounts pairs(vocabulary_size);
  for_each_label(training, training.samples_per_epoch(), [&](std::int32_t a, std::int32_t b) {
    ++inputs.at(static_cast<std::size_t>(a));
    ++labels.at(static_cast<std::size_t>(b));
    pairs.add(a, b);
    ++out.training_tokens;
  });
  std::array<double, kWeights.size()> bigram_sums = {};
  double unigram_sum = 0;
  const double total = static_cast<double>(out.training_tokens + vocabulary_size);
  const std::int64_t samples =
      held_out_samples == 0 ? held_out.samples_per_epoch() : held_out_samples;
  for_each_label(held_out, samples, [&](std::int32_t a, std::int32_t b) {
    const double unigram = static_cast<double>(labels.at(static_cast<std::size_t>(b)) + 1) / total;
    const auto seen = static_cast<double>(inputs.at(static_cast<std::size_t>(a)));
    const double ratio = seen == 0 ? unigram : static_cast<double>(pairs.of(a, b)) / seen;
    unigram_sum -= std::log(unigram);
    for (std::size_t weight = 0; weight < kWeights.size(); ++weight) {
      bigram_sums[weight] -= std::log(kWeights[weight] * ratio + (1 - kWeights[weight]) * unigram);
    }
    ++out.held_out_tokens;
  });
  require(out.held_out_tokens > 0, {.what = "held-out text",
                                    .found = "no label that counts",
                                    .expected = "at least one",
                                    .fix = "hold out more"});
  const auto* best = std::min_element(bigram_sums.begin(), bigram_sums.end());
  out.unigram = unigram_sum / static_cast<double>(out.held_out_tokens);
  out.bigram = *best / static_cast<double>(out.held_out_tokens);
  out.bigram_weight = kWeights.at(static_cast<std::size_t>(best - bigram_sums.begin()));
  return out;
}

}  // namespace hethub
