#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "hethub/base/descriptor.h"

namespace hethub {

/// Whether `name` can only name a file of the folder it is used in.
bool is_plain_file_name(std::string_view name);

/// An open file, read and written at explicit places; never mapped, so a file that shrinks while it
/// is open is an Error and not a signal. Reads may come from several threads at once.
class FileHandle {
 public:
  /// Throws kMissingInput if `file` is not there, is a folder or cannot be read.
  static FileHandle open_to_read(const std::filesystem::path& file);

  /// Creates or empties `file`. Throws kCannotWrite.
  static FileHandle create(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return path_; }

  /// The size now.
  std::int64_t size() const;

  /// Fills `out` from byte `offset` on; throws kCorruptData if the file ends before.
  void read(std::int64_t offset, std::span<std::byte> out) const;

  /// Adds `bytes` at the end of what was written. Throws kCannotWrite.
  void append(std::span<const std::byte> bytes);

  /// Waits until what was written is on the disk (fsync). Throws kCannotWrite.
  void sync();

 private:
  FileHandle(std::filesystem::path path, int fd);

  std::filesystem::path path_;
  Descriptor descriptor_;
};

}  // namespace hethub
