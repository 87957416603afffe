#pragma once

#include <cstdint>
#include <optional>

#include "hethub/base/error.h"
#include "hethub/model/config.h"

namespace hethub {

/// What decides, beside the width, whether a tensor-parallel group can hold a model's layers.
struct WidthJob {
  std::int64_t sequence_length = 0;
  bool sequence_parallel = false;  ///< Plan::sequence_parallel
};

/// Why no group of so many ranks can hold this model's layers, but for where it happened; nothing
/// if one can. Whole heads are split; with fewer key heads than ranks, several ranks hold one. Each
/// rank has a row of every split matrix and an expert of a mixture, and of a sequence that is split
/// as many positions as the others. All else may be split unevenly.
std::optional<ErrorParts> width_fault(const ModelConfig& model, const WidthJob& job, int width);

}  // namespace hethub
