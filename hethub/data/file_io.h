#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hethub {

/// A file open for reading, at any position and from any number of threads.
class InputFile {
 public:
  /// Throws kMissingInput if it cannot be opened or is a folder.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes at the moment of the call.
  std::int64_t size() const;
  /// Fills `out` from byte `position` on; returns how many bytes there were (fewer at the end).
  std::size_t read_at(std::int64_t position, std::span<std::byte> out) const;
  /// The same from where the last call of `read` ended (a pipe will do).
  std::size_t read(std::span<std::byte> out);

 private:
  std::string path_;
  int fd_ = -1;
};

/// A file written from start to end under a temporary name beside its own, then renamed into
/// place. Without `commit` nothing is left behind.
class OutputFile {
 public:
  /// Throws kCannotWrite, as do the others.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// The bytes of `value` as they lie in memory (little-endian: see file_io.cpp).
  template <typename T>
  void write_value(T value) {
    write(std::as_bytes(std::span(&value, 1)));
  }
  /// Writes what is buffered, syncs and renames.
  void commit();

 private:
  void flush();
  [[noreturn]] void fail() const;

  std::string path_;
  std::string temporary_;
  std::vector<std::byte> buffer_;
  int fd_ = -1;
};

}  // namespace hethub
