#pragma once

#include <cstdint>

#include "hethub/data/sample_source.h"

namespace hethub {

/// What models that only count reach on held-out text, in nats a token: what a trained model's loss
/// is compared with.
struct Baselines {
  double unigram = 0;        ///< cross-entropy under the training text's unigram model
  double bigram = 0;         ///< the same under its bigram model
  double bigram_weight = 0;  ///< λ of that model
  std::int64_t training_tokens = 0;
  std::int64_t held_out_tokens = 0;
};

/// Counts every label of one epoch of `training`, and scores the labels of the first
/// `held_out_samples` samples of `held_out` (all of them if 0), leaving out ignored ones.
///
/// With c(b) and c(a,b) the counts of a token and of a pair (input a, label b), N = Σ c(b),
/// c(a) = Σ_b c(a,b) and V = vocabulary_size:
///   unigram  p₁(b) = (c(b) + 1) / (N + V)
///   bigram   p₂(b|a) = λ c(a,b)/c(a) + (1-λ) p₁(b), and p₁(b) if c(a) = 0
/// (add-one smoothing; Jelinek-Mercer interpolation: Chen and Goodman, "An empirical study of
/// smoothing techniques for language modeling", ACL 1996). λ is the one of 0.5, 0.7, 0.8, 0.9,
/// 0.95, 0.98, 0.99, 0.995 and 0.999 that suits the held-out text best, which flatters the bigram
/// model. Memory: V² counts up to V = 2048, above that 16 bytes or so a different pair.
Baselines baselines_of(const SampleSource& training, const SampleSource& held_out,
                       std::int64_t vocabulary_size, std::int64_t held_out_samples = 0);

}  // namespace hethub
