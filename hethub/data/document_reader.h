#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hethub {

/// What to do with a line that is no UTF-8 or no record with a text.
enum class BadLine : std::uint8_t {
  kError,    ///< throw
  kSkip,     ///< leave the line out and count it
  kReplace,  ///< put U+FFFD for bytes that are no UTF-8 and halves of surrogate pairs, and count
             ///< the line; throw if it is wrong in any other way
};

/// "error", "skip" or "replace"; throws kUsage on another word.
BadLine bad_line_from(std::string_view word);

struct ReadOptions {
  std::string text_key = "text";  ///< the member of a JSONL record that holds its text
  BadLine on_bad_line = BadLine::kError;
  bool split_on_blank_lines = false;      ///< plain text: one document a paragraph, not a file
  std::int64_t longest_line = 256 << 20;  ///< bytes; a longer line is refused
};

/// What was met while reading, summed over all inputs.
struct InputTotals {
  std::int64_t lines = 0;       ///< as an editor counts them, blank ones included
  std::int64_t blank = 0;       ///< JSONL: lines of white space, which are skipped
  std::int64_t documents = 0;   ///< empty ones included
  std::int64_t empty = 0;       ///< documents without a byte of text
  std::int64_t bad = 0;         ///< lines skipped or mended
  std::int64_t text_bytes = 0;  ///< of the documents
};

/// A part of a document: the reader holds no more of a long text than this.
struct Piece {
  std::string_view text = {};  ///< well-formed UTF-8, valid until the next call of `next`
  bool ends_document = false;
};

/// The documents of one input file, piece by piece.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;

  /// The next piece; false after the last. A document ends with a piece that says so (which may be
  /// empty). Throws kCorruptData with "file:line:column", lines counted from 1 with blank ones,
  /// columns in bytes from 1.
  virtual bool next(Piece& piece) = 0;
};

/// Opens an input by the suffix of its name: .jsonl, .ndjson and .json hold one JSON object a line;
/// .txt and .text hold one document; .gz after any of these is decompressed; another .gz, or a
/// .dz, is compressed text. A byte-order mark at the start of the file is left out. In JSONL, lines
/// may end in CR LF; plain text is passed on as it is, in pieces of whole lines of about 1 MiB.
/// `totals` outlives the reader and is added to. Throws kUnsupported on another suffix and
/// kMissingInput if the file cannot be opened.
std::unique_ptr<DocumentReader> open_documents(const std::string& path, const ReadOptions& options,
                                               InputTotals& totals);

}  // namespace hethub
