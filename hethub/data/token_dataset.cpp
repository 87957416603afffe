#include "hethub/data/token_dataset.h"

#include <algorithm>

#include "hethub/base/error.h"

namespace hethub {
namespace {

[[noreturn]] void refuse(std::string what, std::string found, std::string expected,
                         std::string fix) {
  throw Error(ErrorCode::kInvalidConfig, {.what = std::move(what),
                                          .found = std::move(found),
                                          .expected = std::move(expected),
                                          .fix = std::move(fix)});
}

struct Windows {
  std::int64_t training = 0;
  std::int64_t held_out = 0;
};

Windows windows_of(const TokenDatasetOptions& options, std::int64_t tokens) {
  const double fraction = options.held_out_fraction;
  if (options.sequence_length < 1) {
    refuse("sequence length", text(options.sequence_length), "at least 1", "raise it");
  }
  if (!(fraction >= 0 && fraction < 1)) {
    refuse("held-out fraction", text(fraction), "0 or more and less than 1", "lower it");
  }
  const std::int64_t all = std::max<std::int64_t>(0, tokens - 1) / options.sequence_length;
  const auto share = static_cast<std::int64_t>(fraction * static_cast<double>(all));
  const std::int64_t held_out = fraction > 0 ? std::max<std::int64_t>(1, share) : 0;
  const Windows windows = {.training = all - held_out, .held_out = held_out};
  const bool training = options.split == Split::kTraining;
  if (training ? windows.training < 1 : windows.held_out < 1 || windows.training < 0) {
    const std::int64_t needed = (fraction > 0 ? 2 : 1) * options.sequence_length + 1;
    refuse(text(options.prefix, ": windows for ", training ? "training" : "held-out text"),
           text("none in ", tokens, " tokens with a held-out fraction of ", fraction),
           text(training || fraction > 0 ? text("at least ", needed, " tokens")
                                         : "a held-out fraction over 0"),
           "use more text, a shorter sequence length or another fraction");
  }
  return windows;
}

std::int64_t count_of(const TokenDatasetOptions& options, const Windows& windows) {
  return options.split == Split::kTraining ? windows.training : windows.held_out;
}

}  // namespace

TokenDataset::TokenDataset(const TokenDatasetOptions& options)
    : file_(options.prefix, options.vocabulary_size),
      sequence_length_(options.sequence_length),
      split_(options.split),
      first_window_(split_ == Split::kTraining ? 0 : windows_of(options, file_.tokens()).training),
      count_(count_of(options, windows_of(options, file_.tokens()))),
      order_(options.seed, count_) {}

std::int64_t TokenDataset::id_of(std::int64_t sample) const {
  return split_ == Split::kTraining ? order_.at(sample) : first_window_ + sample % count_;
}

void TokenDataset::read(std::int64_t sample, std::span<std::int32_t> tokens,
                        std::span<std::int32_t> labels) const {
  const auto length = static_cast<std::size_t>(sequence_length_);
  if (sample < 0 || tokens.size() != length || labels.size() != length) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "sample, its tokens and labels",
                 .found = text(sample, ", ", tokens.size(), " and ", labels.size()),
                 .expected = text("0 or more, ", length, " and ", length),
                 .fix = "count samples from 0 and pass spans of the sequence length"});
  }
  const std::int64_t first = id_of(sample) * sequence_length_;
  file_.read(first, tokens);
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
  file_.read(first + sequence_length_, labels.last(1));
}

}  // namespace hethub
