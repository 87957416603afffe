#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hethub/checkpoint/reader.h"

namespace hethub {

/// Rows of a parameter within an exported tensor. A row of a tensor of one dimension is one
/// element.
struct ExportPart {
  std::string tensor = {};
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t row_length = 1;
  std::int64_t first = 0;  ///< row of the exported tensor, before it is transposed
};

/// A tensor of a Hugging Face file that is not one of the checkpoint's as it is.
struct ExportTensor {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  bool transposed = false;  ///< written column by column
  std::vector<ExportPart> parts = {};
};

struct ExportOptions {
  /// The tensors to write; empty: the parameters under their own names. Each is put together in
  /// memory.
  std::vector<ExportTensor> tensors = {};

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
