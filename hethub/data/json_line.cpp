#include "hethub/data/json_line.h"

#include <cstdint>
#include <utility>

#include "hethub/base/text.h"
#include "hethub/data/utf8.h"

namespace hethub {
namespace {

constexpr int kMostDepth = 1000;

struct Fault {
  LineFault fault = {};
};

// One pass over the line; throws Fault, which never leaves this file.
class Scanner {
 public:
  Scanner(std::string_view line, std::string_view key, LoneSurrogates lone_surrogates)
      : line_(line), wanted_key_(key), lone_surrogates_(lone_surrogates) {}

  void read_record(std::string& text_out) {
    skip_space();
    if (peek() != '{') fail("no object", text("an object with the key \"", wanted_key_, "\""));
    bool has_text = false;
    std::optional<LineFault> wrong_type;
    read_members(1, [&](const std::string& key) {
      if (key != wanted_key_) return read_value(1);
      wrong_type.reset();
      has_text = peek() == '"';
      if (has_text) return read_string(text_out);
      wrong_type = fault("a value that is no text", "a text between quotes");
      read_value(1);
    });
    skip_space();
    if (at_ < line_.size()) fail("more after the object", "one object a line");
    if (wrong_type) throw Fault{*wrong_type};
    if (!has_text) {
      throw Fault{{.column = 1,
                   .found = text("no key \"", wanted_key_, "\""),
                   .expected = text("an object with the key \"", wanted_key_, "\"")}};
    }
  }

 private:
  LineFault fault(std::string found, std::string expected) const {
    return {.column = at_ + 1, .found = std::move(found), .expected = std::move(expected)};
  }

  [[noreturn]] void fail(std::string found, std::string expected) const {
    throw Fault{fault(std::move(found), std::move(expected))};
  }

  [[noreturn]] void fail(std::string expected) const {
    const bool ended = at_ >= line_.size();
    fail(ended ? "the end of the line" : text("'", shown(), "'"), std::move(expected));
  }

  // The character here, unless it would spoil a message.
  std::string shown() const {
    const auto byte = static_cast<unsigned char>(line_[at_]);
    return byte >= 0x20 && byte < 0x7F ? std::string(1, line_[at_]) : text("byte ", int{byte});
  }

  // 0 at the end; a NUL in the line is in no place allowed, so the two need no telling apart.
  char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }

  void skip_space() {
    while (at_ < line_.size() && std::string_view(" \t\r\n").find(line_[at_]) != line_.npos) {
      ++at_;
    }
  }

  void take(char wanted) {
    if (peek() != wanted) fail(text("'", wanted, "'"));
    ++at_;
  }

  bool take_if(std::string_view word) {
    if (line_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // Calls read_member(key) where each member's value begins.
  template <typename ReadMember>
  void read_members(int depth, const ReadMember& read_member) {
    check_depth(depth);
    take('{');
    skip_space();
    if (take_if("}")) return;
    std::string key;
    while (true) {
      skip_space();
      if (peek() != '"') fail("a key between quotes");
      read_string(key);
      skip_space();
      take(':');
      skip_space();
      read_member(key);
      skip_space();
      if (take_if("}")) return;
      if (peek() != ',') fail("',' or '}'");
      ++at_;
    }
  }

  void read_list(int depth) {
    check_depth(depth);
    take('[');
    skip_space();
    if (take_if("]")) return;
    while (true) {
      skip_space();
      read_value(depth);
      skip_space();
      if (take_if("]")) return;
      if (peek() != ',') fail("',' or ']'");
      ++at_;
    }
  }

  void read_value(int depth) {
    const char first = peek();
    if (first == '{') return read_members(depth + 1, [&](auto&) { read_value(depth + 1); });
    if (first == '[') return read_list(depth + 1);
    if (first == '"') return read_string(ignored_);
    for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"}) {
      if (take_if(word)) return;
    }
    read_number();
  }

  void check_depth(int depth) const {
    if (depth > kMostDepth) fail("nesting over 1000 levels", "at most 1000");
  }

  void read_digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') {
      ++at_;
    }
    if (at_ == start) fail("a value");
  }

  void read_number() {
    take_if("-");
    if (!take_if("0")) read_digits();
    if (take_if(".")) read_digits();
    if (take_if("e") || take_if("E")) {
      if (!take_if("+")) take_if("-");
      read_digits();
    }
  }

  void read_string(std::string& out) {
    out.clear();
    take('"');
    while (true) {
      const std::size_t start = at_;
      while (at_ < line_.size() && line_[at_] != '"' && line_[at_] != '\\' &&
             static_cast<unsigned char>(line_[at_]) >= 0x20) {
        ++at_;
      }
      out += line_.substr(start, at_ - start);
      if (take_if("\"")) return;
      if (peek() != '\\') fail("'\"'");
      read_escape(out);
    }
  }

  void read_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    ++at_;
    if (take_if("u")) return read_code_point(out);
    const std::size_t which = peek() == '\0' ? kNames.npos : kNames.find(peek());
    if (which == kNames.npos) fail("one of \" \\ / b f n r t u after a backslash");
    out += kMeanings[which];
    ++at_;
  }

  std::uint32_t read_hex() {
    std::uint32_t value = 0;
    for (int digit = 0; digit < 4; ++digit) {
      const char letter = peek();
      const bool decimal = letter >= '0' && letter <= '9';
      const char lower = static_cast<char>(letter | 0x20);
      if (!decimal && (lower < 'a' || lower > 'f')) fail("four hexadecimal digits after \\u");
      value = value * 16 + static_cast<std::uint32_t>(decimal ? letter - '0' : lower - 'a' + 10);
      ++at_;
    }
    return value;
  }

  void read_code_point(std::string& out) {
    const std::size_t start = at_ - 2;
    const std::uint32_t unit = read_hex();
    if (unit < 0xD800 || unit > 0xDFFF) return append_utf8(unit, out);
    const std::size_t after_first = at_;
    if (unit < 0xDC00 && take_if("\\u")) {
      const std::uint32_t low = read_hex();
      if (low >= 0xDC00 && low <= 0xDFFF) {
        return append_utf8(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), out);
      }
      at_ = after_first;  // what follows is a character of its own
    }
    if (lone_surrogates_ == LoneSurrogates::kFault) {
      at_ = start;
      fail("half a surrogate pair", "both halves, or --on-bad-line replace");
    }
    out += kReplacementCharacter;
  }

  std::string_view line_;
  std::string_view wanted_key_;
  LoneSurrogates lone_surrogates_;
  std::size_t at_ = 0;
  std::string ignored_;
};

}  // namespace

std::optional<LineFault> read_json_text(std::string_view line, std::string_view key,
                                        LoneSurrogates lone_surrogates, std::string& text_out) {
  try {
    Scanner(line, key, lone_surrogates).read_record(text_out);
    return std::nullopt;
  } catch (const Fault& fault) {
    return fault.fault;
  }
}

}  // namespace hethub
