#include "hethub/data/line_reader.h"

#include <utility>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

constexpr std::size_t kBlockBytes = 1 << 18;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

LineReader::LineReader(std::unique_ptr<ByteStream> stream, std::string name,
                       std::int64_t longest_line)
    : stream_(std::move(stream)),
      name_(std::move(name)),
      longest_line_(static_cast<std::size_t>(longest_line)),
      block_(kBlockBytes) {
  require(longest_line >= 1, {.what = "the longest line allowed",
                              .found = text(longest_line),
                              .expected = "at least 1 byte",
                              .fix = "raise it"});
}

bool LineReader::next(std::string_view& line) {
  line_.clear();
  while (true) {
    if (rest_.empty() && !refill()) {
      line = line_;
      break;
    }
    const std::size_t end = rest_.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view part = rest_.substr(0, whole ? end + 1 : rest_.size());
    check_length(line_.size() + part.size());
    rest_.remove_prefix(part.size());
    line = part;  // no copy for a line inside one block
    if (whole && line_.empty()) break;
    line_ += part;
    line = line_;
    if (whole) break;
  }
  if (line.empty()) return false;
  ++number_;
  mark_bytes_ = number_ == 1 && line.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  line.remove_prefix(mark_bytes_);
  return true;
}

std::string LineReader::place(std::size_t column) const {
  return text(name_, ":", number_, ":", column + mark_bytes_);
}

bool LineReader::refill() {
  const std::size_t count = stream_->read(std::as_writable_bytes(std::span(block_)));
  rest_ = {block_.data(), count};
  return count > 0;
}

void LineReader::check_length(std::size_t bytes) const {
  if (bytes <= longest_line_) return;
  throw Error(ErrorCode::kCorruptData,
              {.what = text(name_, ":", number_ + 1, ":1: the line"),
               .found = text("more than ", bytes_text(static_cast<double>(longest_line_))),
               .expected = "a line that fits in memory",
               .fix = "cut the line, or raise --longest-line"});
}

}  // namespace hethub
