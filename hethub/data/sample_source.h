#pragma once

#include <cstdint>
#include <span>

namespace hethub {

/// A label that is not counted in the loss.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// The endless stream of samples that a training run consumes. Sample k is a pure function of k,
/// so every plan reads the same ones: step s with a global batch of B uses samples s·B to s·B+B-1,
/// whoever reads which, and a run that resumes at step s goes on with sample s·B.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// Tokens a sample holds.
  virtual std::int64_t sequence_length() const = 0;

  /// How many different samples there are; the stream visits each once an epoch.
  virtual std::int64_t samples_per_epoch() const = 0;

  /// Which of the samples_per_epoch() samples number `sample` (>= 0) of the stream is: what a log
  /// shows, and what two runs compare.
  virtual std::int64_t id_of(std::int64_t sample) const = 0;

  /// Reads sample number `sample` (>= 0): `tokens[i]` is an input and `labels[i]` what should
  /// follow it, or kIgnoredLabel; both spans are sequence_length() long. Allocates nothing; may be
  /// called from several threads at once. Throws kCorruptData if a token is out of the vocabulary.
  virtual void read(std::int64_t sample, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> labels) const = 0;
};

}  // namespace hethub
