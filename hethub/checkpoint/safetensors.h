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
#include "hethub/checkpoint/file_handle.h"

namespace hethub {

/// One tensor of a safetensors file. `begin` and `end` are byte places in the file's data part.
struct SafetensorsEntry {
  std::string name = {};
  std::string dtype = {};  ///< as the file spells it, e.g. "BF16"
  std::vector<std::int64_t> shape = {};
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t elements() const;
};

/// What the header of a safetensors file says.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata = {};
  std::vector<SafetensorsEntry> tensors = {};  ///< in the order of the data, without holes
};

/// A safetensors file that was checked when it was opened: its header is well formed, its tensors
/// fill the data part exactly. Reads may come from several threads.
class SafetensorsFile {
 public:
  /// Reads and checks the header. Throws kMissingInput if there is no such file and kCorruptData
  /// with the official library's name for the fault (e.g. "MetadataIncompleteBuffer") if it is bad.
  static SafetensorsFile open(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }

  /// The entry, or nullptr.
  const SafetensorsEntry* find(std::string_view name) const;

  /// The entry; throws kCorruptData if the file lacks it.
  const SafetensorsEntry& at(std::string_view name) const;

  /// All bytes of a tensor, which `out` must fit exactly.
  void read(std::string_view name, std::span<std::byte> out) const;

  /// Elements [first, first + count) of the flattened tensor, as stored.
  void read_range(std::string_view name, std::int64_t first, std::int64_t count,
                  std::span<std::byte> out) const;

  /// Elements [first, first + out.size()) of the flattened tensor, converted from F64, F32, F16 or
  /// BF16. Throws kUnsupported for any other stored type. Needs 1 MiB besides `out` at most.
  void read_f32(std::string_view name, std::int64_t first, std::span<float> out) const;

 private:
  SafetensorsFile(FileHandle file, SafetensorsHeader header, std::int64_t data_begin);

  FileHandle file_;
  SafetensorsHeader header_;
  std::int64_t data_begin_ = 0;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace hethub
