#include "hethub/data/fixed_batches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

// A dense [step, sequence, row] cube of ids.
struct Cube {
  std::int64_t steps = 0;
  std::int64_t sequences = 0;
  std::int64_t row = 0;
  std::vector<std::int32_t> ids = {};
};

[[noreturn]] void corrupt(std::string what, std::string found, std::string expected) {
  throw Error(ErrorCode::kCorruptData, {.what = std::move(what),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "correct the file"});
}

// Checks that `list` is one of `size` items, or of any number over 0 while `size` is 0.
void check_list(const Json& list, const std::string& where, std::int64_t& size) {
  const bool fits = list.is_array() && !list.empty() &&
                    (size == 0 || static_cast<std::int64_t>(list.size()) == size);
  if (!fits) {
    corrupt(where, list.is_array() ? text("a list of ", list.size()) : list.type_name(),
            size == 0 ? "a list that is not empty" : text("a list of ", size));
  }
  size = static_cast<std::int64_t>(list.size());
}

class CubeReader {
 public:
  CubeReader(std::string where, std::int64_t vocabulary_size, bool may_ignore)
      : where_(std::move(where)), vocabulary_size_(vocabulary_size), may_ignore_(may_ignore) {}

  Cube read(const Json& steps) {
    check_list(steps, where_, cube_.steps);
    for (std::size_t step = 0; step < steps.size(); ++step) {
      const std::string at_step = text(where_, "[", step, "]");
      check_list(steps[step], at_step, cube_.sequences);
      for (std::size_t sequence = 0; sequence < steps[step].size(); ++sequence) {
        read_row(steps[step][sequence], text(at_step, "[", sequence, "]"));
      }
    }
    return std::move(cube_);
  }

 private:
  void read_row(const Json& row, const std::string& where) {
    check_list(row, where, cube_.row);
    for (std::size_t at = 0; at < row.size(); ++at) {
      const std::int64_t id = row[at].is_number_integer() ? row[at].get<std::int64_t>() : -1;
      const bool ignored = may_ignore_ && id == kIgnoredLabel;
      if (!ignored && (id < 0 || id >= vocabulary_size_)) {
        corrupt(text(where, "[", at, "]"), row[at].dump(),
                text("an id from 0 to ", vocabulary_size_ - 1, may_ignore_ ? ", or -100" : ""));
      }
      cube_.ids.push_back(static_cast<std::int32_t>(id));
    }
  }

  std::string where_;
  std::int64_t vocabulary_size_;
  bool may_ignore_;
  Cube cube_;
};

}  // namespace

FixedBatches::FixedBatches(const std::filesystem::path& file, std::int64_t vocabulary_size) {
  const Json document = read_document(file);
  const std::string where = file.string();
  if (!document.is_object() || !document.contains("batches")) {
    corrupt(where, "no \"batches\"", "an object with \"batches\"");
  }
  const Cube batches =
      CubeReader(where + ": batches", vocabulary_size, false).read(document.at("batches"));
  if (batches.row < 2) corrupt(where + ": batches", "sequences of 1 token", "at least 2 tokens");
  steps_ = batches.steps;
  batch_size_ = batches.sequences;
  sequence_length_ = batches.row - 1;
  for (auto row = batches.ids.begin(); row != batches.ids.end(); row += batches.row) {
    tokens_.insert(tokens_.end(), row, row + sequence_length_);
    labels_.insert(labels_.end(), row + 1, row + batches.row);
  }
  if (!document.contains("labels")) return;
  Cube labels = CubeReader(where + ": labels", vocabulary_size, true).read(document.at("labels"));
  if (labels.steps != steps_ || labels.sequences != batch_size_ || labels.row != sequence_length_) {
    corrupt(where + ": labels",
            text("[", labels.steps, "][", labels.sequences, "][", labels.row, "]"),
            text("[", steps_, "][", batch_size_, "][", sequence_length_, "], as \"batches\""));
  }
  labels_ = std::move(labels.ids);
}

void FixedBatches::read(std::int64_t sample, std::span<std::int32_t> tokens,
                        std::span<std::int32_t> labels) const {
  const auto length = static_cast<std::size_t>(sequence_length_);
  const bool in_range = sample >= 0 && sample < samples_per_epoch();
  if (!in_range || tokens.size() != length || labels.size() != length) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "sample, its tokens and labels",
                 .found = text(sample, ", ", tokens.size(), " and ", labels.size()),
                 .expected = text("0 to ", samples_per_epoch() - 1, ", ", length, " and ", length),
                 .fix = "train for no more steps than the file has batches"});
  }
  const std::int64_t first = sample * sequence_length_;
  std::copy_n(tokens_.begin() + first, sequence_length_, tokens.begin());
  std::copy_n(labels_.begin() + first, sequence_length_, labels.begin());
}

}  // namespace hethub
