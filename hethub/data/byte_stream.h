#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace hethub {

/// Bytes that arrive one after the other.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills `out`; returns fewer than asked only at the end.
  virtual std::size_t read(std::span<std::byte> out) = 0;
};

enum class Compression : bool { kNone, kGzip };

/// The content of a file, decompressed on the way in constant memory. Gzip files of several
/// members (dictzip and block gzip among them) are read to the end of the last; zero bytes after a
/// member are padding, and a file of no bytes has no content. Throws kMissingInput if the file
/// cannot be opened, and kCorruptData while reading if it is cut short, damaged or no gzip file.
std::unique_ptr<ByteStream> open_stream(const std::string& path, Compression compression);

}  // namespace hethub
