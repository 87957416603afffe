#include "hethub/data/document_reader.h"

#include <array>
#include <optional>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/data/json_line.h"
#include "hethub/data/line_reader.h"
#include "hethub/data/utf8.h"

namespace hethub {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

enum class Layout : bool { kText, kRecords };

struct SuffixRow {
  std::string_view suffix;
  Layout layout;
  Compression compression;
};

// The first that fits holds.
constexpr std::array<SuffixRow, 12> kSuffixes = {{
    {".jsonl.gz", Layout::kRecords, Compression::kGzip},
    {".ndjson.gz", Layout::kRecords, Compression::kGzip},
    {".json.gz", Layout::kRecords, Compression::kGzip},
    {".jsonl", Layout::kRecords, Compression::kNone},
    {".ndjson", Layout::kRecords, Compression::kNone},
    {".json", Layout::kRecords, Compression::kNone},
    {".txt.gz", Layout::kText, Compression::kGzip},
    {".text.gz", Layout::kText, Compression::kGzip},
    {".txt", Layout::kText, Compression::kNone},
    {".text", Layout::kText, Compression::kNone},
    {".gz", Layout::kText, Compression::kGzip},
    {".dz", Layout::kText, Compression::kGzip},
}};

const SuffixRow& row_of(const std::string& path) {
  std::string known;
  for (const SuffixRow& row : kSuffixes) {
    if (path.ends_with(row.suffix)) return row;
    known += text(known.empty() ? "" : ", ", row.suffix);
  }
  const std::size_t dot = path.find_last_of("./");
  const bool has_suffix = dot != std::string::npos && path[dot] == '.';
  throw Error(ErrorCode::kUnsupported,
              {.what = path + ": the kind of this input",
               .found = has_suffix ? text("the suffix ", path.substr(dot)) : "no suffix",
               .expected = "one of " + known,
               .fix = "rename the file, or convert it to JSONL or plain text"});
}

// Without its LF or CR LF, so that a column never lies past the line.
std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// A fault in a line: throws unless the policy lets it pass.
void count_bad_line(const LineReader& lines, const LineFault& fault, bool passes,
                    InputTotals& totals) {
  if (!passes) {
    throw Error(ErrorCode::kCorruptData, {.what = lines.place(fault.column) + ": bad line",
                                          .found = fault.found,
                                          .expected = fault.expected,
                                          .fix = "correct the line, or use --on-bad-line skip (or "
                                                 "replace, for bytes that are no UTF-8)"});
  }
  ++totals.bad;
}

// Gives the lines as well-formed UTF-8, and applies the policy to those that are not.
class TextLines {
 public:
  TextLines(std::unique_ptr<ByteStream> stream, const std::string& path, const ReadOptions& options,
            InputTotals& totals)
      : lines_(std::move(stream), path, options.longest_line),
        policy_(options.on_bad_line),
        totals_(totals) {}

  bool next(std::string_view& line) {
    while (lines_.next(line)) {
      ++totals_.lines;
      mended_ = false;
      const std::size_t invalid = first_invalid_utf8(line);
      if (invalid == std::string_view::npos) return true;
      const unsigned byte = static_cast<unsigned char>(line[invalid]);
      count_bad_line(lines_,
                     {.column = invalid + 1,
                      .found = text("byte ", byte, ", which is no UTF-8 there"),
                      .expected = "text in UTF-8"},
                     policy_ != BadLine::kError, totals_);
      if (policy_ == BadLine::kSkip) continue;
      replaced_ = replaced_utf8(line);
      line = replaced_;
      mended_ = true;
      return true;
    }
    return false;
  }

  const LineReader& lines() const { return lines_; }
  /// Whether the line given last had bytes replaced, and so is counted as bad already.
  bool mended() const { return mended_; }

 private:
  LineReader lines_;
  BadLine policy_;
  InputTotals& totals_;
  std::string replaced_;
  bool mended_ = false;
};

class RecordReader : public DocumentReader {
 public:
  RecordReader(std::unique_ptr<ByteStream> stream, const std::string& path, ReadOptions options,
               InputTotals& totals)
      : lines_(std::move(stream), path, options, totals),
        options_(std::move(options)),
        totals_(totals) {}

  bool next(Piece& piece) override {
    std::string_view line;
    while (lines_.next(line)) {
      if (is_blank(line)) {
        ++totals_.blank;
        continue;
      }
      if (!read_record(without_end(line))) continue;
      ++totals_.documents;
      totals_.empty += text_.empty() ? 1 : 0;
      totals_.text_bytes += static_cast<std::int64_t>(text_.size());
      piece = {.text = text_, .ends_document = true};
      return true;
    }
    return false;
  }

 private:
  bool read_record(std::string_view line) {
    const auto fault = read_json_text(line, options_.text_key, LoneSurrogates::kFault, text_);
    if (!fault) return true;
    const bool mend = options_.on_bad_line == BadLine::kReplace;
    const bool mended =
        mend && !read_json_text(line, options_.text_key, LoneSurrogates::kReplace, text_);
    if (mended && lines_.mended()) return true;
    count_bad_line(lines_.lines(), *fault, mended || options_.on_bad_line == BadLine::kSkip,
                   totals_);
    return mended;
  }

  TextLines lines_;
  ReadOptions options_;
  InputTotals& totals_;
  std::string text_;
};

class TextReader : public DocumentReader {
 public:
  TextReader(std::unique_ptr<ByteStream> stream, const std::string& path,
             const ReadOptions& options, InputTotals& totals)
      : lines_(std::move(stream), path, options, totals),
        split_on_blank_lines_(options.split_on_blank_lines),
        totals_(totals) {}

  // A text has no empty documents: none begins before its first line.
  bool next(Piece& piece) override {
    piece_.clear();
    std::string_view line;
    while (lines_.next(line)) {
      const bool separates = split_on_blank_lines_ && is_blank(line);
      if (separates && !in_document_) continue;
      if (separates) return give(piece, true);
      in_document_ = in_document_ || !line.empty();
      piece_ += line;
      if (piece_.size() >= kPieceBytes) return give(piece, false);
    }
    return in_document_ && give(piece, true);
  }

 private:
  bool give(Piece& piece, bool ends_document) {
    piece = {.text = piece_, .ends_document = ends_document};
    totals_.text_bytes += static_cast<std::int64_t>(piece_.size());
    totals_.documents += ends_document ? 1 : 0;
    in_document_ = !ends_document;
    return true;
  }

  TextLines lines_;
  bool split_on_blank_lines_;
  InputTotals& totals_;
  std::string piece_;
  bool in_document_ = false;
};

}  // namespace

BadLine bad_line_from(std::string_view word) {
  if (word == "error") return BadLine::kError;
  if (word == "skip") return BadLine::kSkip;
  if (word == "replace") return BadLine::kReplace;
  throw Error(ErrorCode::kUsage, {.what = "--on-bad-line",
                                  .found = text("\"", word, "\""),
                                  .expected = "error, skip or replace",
                                  .fix = "choose one of these"});
}

std::unique_ptr<DocumentReader> open_documents(const std::string& path, const ReadOptions& options,
                                               InputTotals& totals) {
  const SuffixRow& row = row_of(path);
  std::unique_ptr<ByteStream> stream = open_stream(path, row.compression);
  if (row.layout == Layout::kText) {
    return std::make_unique<TextReader>(std::move(stream), path, options, totals);
  }
  return std::make_unique<RecordReader>(std::move(stream), path, options, totals);
}

}  // namespace hethub
