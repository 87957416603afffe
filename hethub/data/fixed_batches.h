#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "hethub/data/sample_source.h"

namespace hethub {

/// Batches that a file spells out, read one sequence after the other: sample k is sequence
/// k % batch_size() of step k / batch_size(). The stream ends with the last.
///
/// The file is JSON: {"batches": [step][sequence][S+1 tokens]}, where the last token of a sequence
/// is only a label. An optional "labels": [step][sequence][S] replaces the labels; -100 is one that
/// is not counted.
class FixedBatches : public SampleSource {
 public:
  /// Throws kMissingInput if there is no such file, and kCorruptData, naming the step and sequence,
  /// if its lists are empty or uneven or an id is not in [0, vocabulary_size).
  FixedBatches(const std::filesystem::path& file, std::int64_t vocabulary_size);

  std::int64_t batch_size() const { return batch_size_; }
  std::int64_t steps() const { return steps_; }

  std::int64_t sequence_length() const override { return sequence_length_; }
  std::int64_t samples_per_epoch() const override { return steps_ * batch_size_; }
  std::int64_t id_of(std::int64_t sample) const override { return sample; }
  /// Throws kInvalidArgument past the last sample too.
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override;

 private:
  std::int64_t steps_ = 0;
  std::int64_t batch_size_ = 0;
  std::int64_t sequence_length_ = 0;
  std::vector<std::int32_t> tokens_;  // [sample, S]
  std::vector<std::int32_t> labels_;  // [sample, S]
};

}  // namespace hethub
