#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/error.h"

namespace hethub {

/// What a stored tensor is to its parameter: itself, or AdamW's first or second moment.
enum class TensorRole : std::uint8_t { kParameter, kFirstMoment, kSecondMoment };

/// "parameter", "m", "v".
std::string_view name_of(TensorRole role);

/// A tensor of the model or the optimizer as a whole, whatever ranks hold it; padding is never part
/// of it.
struct LogicalTensor {
  std::string name = {};  ///< the parameter's name in a Hugging Face file
  TensorRole role = TensorRole::kParameter;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};

  std::int64_t elements() const;
  friend bool operator==(const LogicalTensor&, const LogicalTensor&) = default;
};

/// "model.norm.weight", "model.norm.weight (m)": how messages name it.
std::string label_of(const LogicalTensor& tensor);

/// Elements [first, first + count) of a tensor in the order it is stored in, and where.
struct StoredPiece {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::string file = {};         ///< a shard, beside the manifest
  std::string stored_name = {};  ///< the tensor in that shard, of shape [count]
};

/// The order in which a tensor's elements are counted.
enum class ElementOrder : std::uint8_t {
  kRows,     ///< row by row
  kColumns,  ///< column by column: as ranks store a matrix that tensor parallel splits by columns
};

/// A logical tensor and the pieces that make it up.
struct StoredTensor {
  LogicalTensor tensor = {};
  ElementOrder order = ElementOrder::kRows;  ///< that the pieces count in
  std::vector<StoredPiece> pieces = {};
};

/// A shard as it was written.
struct ShardFile {
  std::string name = {};
  std::int64_t bytes = 0;
  std::string checksum = {};  ///< XXH3-128, hexadecimal
};

/// What one rank wrote: sent as text to the rank that commits.
struct ShardRecord {
  ShardFile file = {};
  std::vector<StoredTensor> tensors = {};
};

/// The state of a run besides its tensors; nothing in it belongs to one rank.
struct CheckpointFacts {
  std::int64_t step = 0;         ///< steps done
  std::int64_t next_sample = 0;  ///< the first sample of the run that was not yet used
  std::map<std::string, std::uint64_t> seeds = {};
  std::map<std::string, std::int64_t> counters = {};  ///< e.g. tokens seen
  std::map<std::string, double> optimizer = {};       ///< hyperparameters and scalars; finite
  std::string plan_hash = {};       ///< of the plan that wrote it; any may read it
  std::string data = {};            ///< digest of the samples it was trained on; "": not known
  std::string model_config = "{}";  ///< config.json: every key, in its order
};

/// The file manifest.json of a checkpoint.
struct Manifest {
  CheckpointFacts facts = {};
  std::vector<StoredTensor> tensors = {};
  std::vector<ShardFile> files = {};
};

inline constexpr std::string_view kManifestName = "manifest.json";

/// The record as JSON text; record_from reads it back and throws kCorruptData if it is none.
std::string to_text(const ShardRecord& record);
ShardRecord record_from(const std::string& json, const std::string& name);

/// The manifest as JSON text; manifest_from reads it back. `name` is the file's name in errors.
/// Throws kCorruptData if a field is missing, of a wrong type or impossible, or if a file's name is
/// not a plain one.
std::string to_text(const Manifest& manifest);
Manifest manifest_from(const std::string& json, const std::string& name);

/// Throws an Error of code `code` unless the pieces of every tensor cover each of its elements
/// exactly once and lie in one of `files`. Sorts the pieces by their first element.
void check_coverage(Manifest& manifest, ErrorCode code, const std::string& name);

}  // namespace hethub
