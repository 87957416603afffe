#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hethub/checkpoint/manifest.h"
#include "hethub/checkpoint/safetensors.h"

namespace hethub {

/// A committed checkpoint. Any rank reads any range of any tensor, whatever ranks wrote it. Reads
/// may come from several threads.
class Checkpoint {
 public:
  /// Opens a step's folder (see resolve_checkpoint). Throws kCorruptData if it was not committed
  /// ("incomplete (no COMMIT)"), if a shard is missing or of another size, if an element of a
  /// tensor is stored by no piece or by two, or if a shard holds a tensor the manifest lacks.
  /// Checksums are left to verify().
  static Checkpoint open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const CheckpointFacts& facts() const { return manifest_.facts; }

  /// Throws kCorruptData, counting and naming them, unless the checkpoint holds exactly the tensors
  /// of `expected`, each of that type and shape: nothing is dropped and nothing is made up.
  void check_tensors(const std::vector<LogicalTensor>& expected) const;

  /// The tensor, or nullptr.
  const LogicalTensor* find(std::string_view name, TensorRole role) const;

  /// Elements [first, first + count) of a tensor counted in `order`, whatever order it is stored
  /// in. Throws kCorruptData if there is no such tensor, kInvalidArgument if the range or `out`
  /// does not fit.
  void read(std::string_view name, TensorRole role, std::int64_t first, std::int64_t count,
            std::span<std::byte> out, ElementOrder order = ElementOrder::kRows) const;

  /// Reads every shard and compares its checksum; one line for each that is wrong.
  std::vector<std::string> verify() const;

 private:
  void check_shards() const;
  void read_run(const StoredTensor& stored, std::int64_t first, std::span<std::byte> out) const;
  void read_across(const StoredTensor& stored, std::int64_t first, std::int64_t count,
                   std::span<std::byte> out) const;
  const StoredTensor& at(std::string_view name, TensorRole role) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> shards_;
  std::map<std::pair<std::string, TensorRole>, std::size_t> index_;
};

}  // namespace hethub
