#pragma once

#include <cstdint>
#include <string>

#include "hethub/data/indexed_dataset.h"
#include "hethub/data/sample_order.h"
#include "hethub/data/sample_source.h"

namespace hethub {

/// Which windows of a dataset.
enum class Split : std::uint8_t {
  kTraining,  ///< all but the last, in an order that is shuffled anew each epoch
  kHeldOut,   ///< the last, in the file's order, every epoch alike
};

struct TokenDatasetOptions {
  std::string prefix = {};           ///< of the .bin and .idx files
  std::int64_t sequence_length = 0;  ///< tokens a sample
  std::int64_t vocabulary_size = 0;  ///< ids at or above it are refused
  std::uint64_t seed = 0;            ///< of the order
  double held_out_fraction = 0;      ///< of the windows, in [0, 1)
  Split split = Split::kTraining;
};

/// Samples cut from a tokenized text.
///
/// All documents are joined in the file's order and cut into windows: window w holds tokens
/// w·S to w·S+S for a sequence length S, the last of which is only a label (and the first input of
/// the next window). What remains after the last whole window is left out. With a held-out fraction
/// f the last max(1, ⌊f·windows⌋) windows are held out: training never sees one of their labels.
class TokenDataset : public SampleSource {
 public:
  /// Throws as IndexedDataset, and kInvalidConfig if a split has no window or an option is out of
  /// range.
  explicit TokenDataset(const TokenDatasetOptions& options);

  std::int64_t sequence_length() const override { return sequence_length_; }
  std::int64_t samples_per_epoch() const override { return count_; }
  /// The window's number in the whole file.
  std::int64_t id_of(std::int64_t sample) const override;
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override;

 private:
  IndexedDataset file_;
  std::int64_t sequence_length_;
  Split split_;
  std::int64_t first_window_ = 0;
  std::int64_t count_ = 0;
  SampleOrder order_;
};

}  // namespace hethub
