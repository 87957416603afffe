#pragma once

#include <cstdint>
#include <filesystem>

#include "hethub/checkpoint/reader.h"

namespace hethub {

struct ExportOptions {
  /// Weights above this are split over several files with an index.
  std::int64_t most_file_bytes = 5'000'000'000;
  std::int64_t staging_bytes = std::int64_t{4} << 20;
};

/// Writes the parameters as a Hugging Face folder: config.json with every key the run was given,
/// and model.safetensors, or shards with an index. A tied model gets no head. Checksums are
/// verified first. `folder` must be empty or absent; it appears only when it is complete.
/// Throws kCorruptData for a bad checkpoint, kCannotWrite otherwise.
void export_hugging_face(const Checkpoint& checkpoint, const std::filesystem::path& folder,
                         const ExportOptions& options = {});

}  // namespace hethub
