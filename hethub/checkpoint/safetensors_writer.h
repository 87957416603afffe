#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/checkpoint/checksum.h"
#include "hethub/checkpoint/safetensors.h"

namespace hethub {

/// A tensor that is to be written.
struct SafetensorsTensor {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};
};

/// What a finished file is.
struct WrittenFile {
  std::int64_t bytes = 0;
  std::string checksum = {};  ///< XXH3-128 of the whole file, 32 hexadecimal digits
};

/// Writes a safetensors file as the official library would, in pieces, so that no tensor need be in
/// memory as a whole. The file is complete only after finish().
class SafetensorsWriter {
 public:
  /// The metadata that other libraries look for.
  static std::map<std::string, std::string> default_metadata() { return {{"format", "pt"}}; }

  /// Creates `file` and writes its header. Throws kCannotWrite, and kInvalidArgument if a name
  /// comes twice, is "__metadata__" or is not UTF-8.
  SafetensorsWriter(const std::filesystem::path& file,
                    const std::vector<SafetensorsTensor>& tensors,
                    const std::map<std::string, std::string>& metadata = default_metadata());

  /// The tensors in the order in which their bytes must come: widest types first, then by name.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  /// The next bytes of tensor `name`. All bytes of one tensor come before the next one's.
  void append(std::string_view name, std::span<const std::byte> bytes);

  /// Checks that every byte came and waits until the file is on the disk.
  WrittenFile finish();

 private:
  void put(std::span<const std::byte> bytes);

  FileHandle file_;
  std::vector<SafetensorsEntry> entries_;
  Checksum checksum_;
  std::size_t current_ = 0;      // the entry whose bytes come next
  std::int64_t data_bytes_ = 0;  // bytes of the data part so far
  std::int64_t file_bytes_ = 0;
};

}  // namespace hethub
