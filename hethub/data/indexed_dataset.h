#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/base/split.h"
#include "hethub/data/file_io.h"

namespace hethub {

/// How a token id is stored in a .bin file.
enum class TokenType : std::uint8_t { kU8, kI8, kI16, kI32, kI64, kU16 };

/// What is fixed about each TokenType, in the order of the enum.
struct TokenTypeRow {
  std::string_view name;
  std::uint8_t code;  ///< in the .idx file
  std::int64_t bytes;
};

const TokenTypeRow& row_of(TokenType type);

/// uint16 below a vocabulary of 65,500, otherwise int32: Megatron's rule.
TokenType token_type_for(std::int64_t vocabulary_size);

/// Writes PREFIX.bin and PREFIX.idx as Megatron does, document by document, one sequence each.
///
/// .bin holds the ids back to back. .idx holds "MMIDIDX\0\0", u64 1, u8 type code, u64 sequences,
/// u64 documents + 1, i32 length of each sequence, i64 its first byte in .bin, and i64 the first
/// sequence of each document with the number of sequences at the end; numbers are little-endian.
/// Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py. Both files appear at `finish`;
/// without it nothing is left. Memory: 4 bytes a document.
class IndexedDatasetWriter {
 public:
  /// Throws kCannotWrite, as do the others.
  IndexedDatasetWriter(std::string prefix, TokenType type);

  /// Adds tokens to the current document. Throws kInvalidArgument if an id does not fit the type,
  /// and kUnsupported if the document passes 2^31 - 1 tokens, the most its length can say.
  void append(std::span<const std::int32_t> tokens);
  /// Ends the current document, which may be empty.
  void end_document();
  /// Puts both files in place; the .idx last, and no older one stands beside the new .bin.
  void finish();

  std::int64_t documents() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t tokens() const { return tokens_; }

 private:
  std::string prefix_;
  TokenType type_;
  OutputFile bin_;
  std::vector<std::byte> encoded_;
  std::vector<std::int32_t> lengths_;  // in tokens, of the documents that ended
  std::int64_t document_tokens_ = 0;
  std::int64_t tokens_ = 0;
};

/// Lengths of sequences, in tokens.
struct SequenceLengths {
  std::int64_t empty = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Reads PREFIX.bin and PREFIX.idx as Megatron or IndexedDatasetWriter writes them.
///
/// Opening checks all of the .idx against its size and the .bin's, in constant memory; reading
/// looks at the file and never maps it, so a file that is cut short meanwhile is an error and not a
/// signal. May be used from several threads at once.
class IndexedDataset {
 public:
  /// Throws kMissingInput if a file is not there and kCorruptData, naming what was found and
  /// expected, if the two are not what the format allows. Types that are no integers are refused.
  explicit IndexedDataset(const std::string& prefix,
                          std::int64_t vocabulary_size = std::numeric_limits<std::int32_t>::max());

  TokenType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t documents() const { return documents_; }
  bool has_modes() const { return has_modes_; }
  const SequenceLengths& lengths() const { return lengths_; }

  /// The tokens of sequence `index` (0 <= index < sequences()), by position in the whole.
  IndexRange sequence(std::int64_t index) const;
  /// The sequences of document `index` (0 <= index < documents()).
  IndexRange document(std::int64_t index) const;

  /// Fills `out` with tokens `first` on of all sequences joined. Allocates nothing. Throws
  /// kInvalidArgument past the end, kCorruptData naming the token's position if an id is not in
  /// [0, vocabulary_size) or the file has been cut short.
  void read(std::int64_t first, std::span<std::int32_t> out) const;

 private:
  void read_header();
  void check_sequences();
  void check_documents() const;
  void check_bin_size() const;
  [[noreturn]] void bin_too_short(std::int64_t found) const;
  template <typename T>
  void read_as(std::int64_t first, std::span<std::int32_t> out) const;
  template <typename T>
  T index_value(std::int64_t byte) const;
  [[noreturn]] void corrupt_index(const std::string& what, std::string found,
                                  std::string expected) const;
  [[noreturn]] void refuse_id(std::int64_t id, std::int64_t token) const;

  InputFile index_;
  InputFile bin_;
  std::int64_t vocabulary_size_;
  TokenType type_ = TokenType::kU16;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
  bool has_modes_ = false;
  SequenceLengths lengths_ = {};
};

}  // namespace hethub
