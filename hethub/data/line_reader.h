#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/data/byte_stream.h"

namespace hethub {

/// Cuts a stream into lines, holding one line and one block of the stream.
class LineReader {
 public:
  /// `name` is the file's name in errors; a line of more than `longest_line` bytes is refused.
  LineReader(std::unique_ptr<ByteStream> stream, std::string name, std::int64_t longest_line);

  /// The next line with its "\n" if it has one (the last need not), valid until the next call;
  /// false at the end. The first line comes without a byte-order mark. Throws kCorruptData.
  bool next(std::string_view& line);

  /// The number of the line that `next` gave last, from 1; 0 before.
  std::int64_t number() const { return number_; }

  /// "name:line:column" of a byte of that line, `column` from 1.
  std::string place(std::size_t column) const;

 private:
  bool refill();
  void check_length(std::size_t bytes) const;

  std::unique_ptr<ByteStream> stream_;
  std::string name_;
  std::size_t longest_line_;
  std::vector<char> block_;
  std::string_view rest_;  // of block_
  std::string line_;       // a line that crosses blocks
  std::int64_t number_ = 0;
  std::size_t mark_bytes_ = 0;  // of the byte-order mark, if the current line had it
};

}  // namespace hethub
