#include "hethub/checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/checkpoint/stored_type.h"

namespace hethub {
namespace {

constexpr std::size_t kMostDepth = 127;  // serde_json refuses the 128th level
constexpr auto kMostCount = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

std::string shortened(std::string_view text_of_file) {
  constexpr std::size_t kMost = 80;
  if (text_of_file.size() <= kMost) return std::string(text_of_file);
  return std::string(text_of_file.substr(0, kMost)) + "...";
}

// A tensor as the header describes it, before any of it is believed.
struct RawEntry {
  std::string name = {};
  std::optional<std::string> dtype = {};
  std::optional<std::vector<std::uint64_t>> shape = {};
  std::optional<std::vector<std::uint64_t>> offsets = {};
};

// Takes the header apart as it is parsed, so that no tree of JSON values is ever built.
// Levels: 1 the header, 2 a tensor or __metadata__, 3 its shape or data_offsets.
class HeaderHandler {
 public:
  explicit HeaderHandler(std::string name) : name_(std::move(name)) {}

  std::vector<RawEntry> entries = {};
  std::map<std::string, std::string> metadata = {};

  bool null() {
    if (depth_ == 1 && key_ == kMetadata) return true;  // the same as absent
    return other("null");
  }
  bool boolean(bool value) { return other(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return other(std::to_string(value)); }
  bool number_float(double /*value*/, const std::string& spelled) {
    return other(spelled);  // 2^64 and above arrive here
  }
  bool number_unsigned(std::uint64_t value) {
    if (list_ == nullptr || depth_ != 3) return other(std::to_string(value));
    list_->push_back(value);
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return other("binary"); }

  bool string(std::string& value) {
    if (depth_ == 2 && in_metadata_) {
      metadata[key_] = value;
      return true;
    }
    if (depth_ == 2 && !in_metadata_ && field_ == "dtype") {
      entries.back().dtype = value;
      return true;
    }
    return other(text("\"", shortened(value), "\""));
  }

  bool key(std::string& value) {
    if (depth_ == 1) {
      unique(top_keys_, value, "the header");
      key_ = value;
    } else if (depth_ == 2) {
      unique(inner_keys_, value, outer_);
      (in_metadata_ ? key_ : field_) = value;
    }
    return true;
  }

  bool start_object(std::size_t /*size*/) {
    enter();
    if (depth_ == 1) return true;
    if (depth_ > 2) return skipping() ? true : other("an object");
    inner_keys_.clear();
    outer_ = key_;
    in_metadata_ = key_ == kMetadata;
    field_.clear();
    if (!in_metadata_) entries.push_back({.name = key_});
    return true;
  }

  bool end_object() {
    --depth_;
    if (depth_ == 1) in_metadata_ = false;
    if (depth_ == 1) field_.clear();
    return true;
  }

  bool start_array(std::size_t /*size*/) {
    enter();
    if (depth_ == 3 && !in_metadata_ && field_ == "shape") list_ = &entries.back().shape.emplace();
    if (depth_ == 3 && !in_metadata_ && field_ == "data_offsets") {
      list_ = &entries.back().offsets.emplace();
    }
    if (list_ == nullptr || depth_ != 3) return skipping() ? true : other("an array");
    return true;
  }

  bool end_array() {
    --depth_;
    if (depth_ == 2) list_ = nullptr;
    return true;
  }

  template <typename ParseError>
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const ParseError& /*error*/) {
    refuse(text("no JSON at byte ", position), "one JSON object and nothing after it");
  }

  [[noreturn]] void refuse(std::string found, std::string expected) const {
    bad_safetensors(name_, "InvalidHeaderDeserialization", std::move(found), std::move(expected));
  }

 private:
  static constexpr std::string_view kMetadata = "__metadata__";

  void enter() {
    if (++depth_ > kMostDepth) refuse("nesting of 128 levels", "at most 127");
  }

  void unique(std::set<std::string>& seen, const std::string& value, const std::string& where) {
    if (seen.insert(value).second) return;
    refuse(text("\"", shortened(value), "\" twice in ", shortened(where)), "each name once");
  }

  // Inside a tensor's field that the format does not know: the official library skips it.
  bool skipping() const {
    return depth_ >= 2 && !in_metadata_ && !field_.empty() && field_ != "dtype" &&
           field_ != "shape" && field_ != "data_offsets";
  }

  // A value where another kind of value belongs.
  bool other(const std::string& found) {
    if (skipping()) return true;
    if (depth_ == 0) refuse(found, "an object");
    if (in_metadata_) {
      bad_safetensors(name_,
                      text("InvalidHeaderDeserialization: ", kMetadata, ".", shortened(key_),
                           " must be a string"),
                      found, text("\"", found, "\""), "write metadata values as strings");
    }
    if (outer_here()) refuse(text(shortened(key_), " = ", found), "an object");
    refuse(text(shortened(outer_), ".", field_, " = ", found),
           field_ == "dtype" ? "a string" : "a list of numbers from 0 to 2^64 - 1");
  }

  bool outer_here() const { return depth_ == 1 || (depth_ == 2 && field_.empty()); }

  std::string name_;
  std::size_t depth_ = 0;
  std::string key_;    // the last key of the header, or of __metadata__
  std::string outer_;  // the tensor being read
  std::string field_;  // the last key of that tensor
  bool in_metadata_ = false;
  std::vector<std::uint64_t>* list_ = nullptr;  // where numbers go, inside shape and data_offsets
  std::set<std::string> top_keys_;
  std::set<std::string> inner_keys_;
};

// Bytes of a tensor of this shape and type.
std::uint64_t bytes_of(const RawEntry& entry, const StoredType& type, const std::string& name) {
  std::uint64_t product = 1;
  bool overflows = false;
  for (const std::uint64_t size : *entry.shape) {
    overflows = overflows || size > kMostCount || __builtin_mul_overflow(product, size, &product);
  }
  std::uint64_t bits = 0;
  overflows =
      overflows || __builtin_mul_overflow(product, static_cast<std::uint64_t>(type.bits), &bits);
  if (overflows) {
    bad_safetensors(name, "ValidationOverflow",
                    text("tensor ", shortened(entry.name), " with a shape of over 2^64 bits"),
                    "a shape whose bits can be counted in 64 bits");
  }
  if (bits % 8 != 0) {
    bad_safetensors(name, "MisalignedSlice",
                    text("tensor ", shortened(entry.name), " of ", bits, " bits"),
                    "a whole number of bytes");
  }
  return bits / 8;
}

void check_complete(const RawEntry& entry, const HeaderHandler& handler) {
  const auto missing = [&](std::string_view field) {
    handler.refuse(text("tensor ", shortened(entry.name), " without ", field),
                   "dtype, shape and data_offsets");
  };
  if (!entry.dtype) missing("dtype");
  if (!entry.shape) missing("shape");
  if (!entry.offsets) missing("data_offsets");
  if (entry.offsets->size() != 2) {
    handler.refuse(
        text(shortened(entry.name), ".data_offsets with ", entry.offsets->size(), " numbers"),
        "two: begin and end");
  }
  if (!stored_type_of(*entry.dtype)) {
    handler.refuse(text(shortened(entry.name), ".dtype = \"", shortened(*entry.dtype), "\""),
                   "a type of the format, e.g. F32");
  }
}

// Checks one tensor that must begin at `begin`; returns it with believed numbers.
SafetensorsEntry checked(RawEntry& entry, std::uint64_t begin, const std::string& name) {
  const std::uint64_t first = entry.offsets->at(0);
  const std::uint64_t last = entry.offsets->at(1);
  if (first != begin || last < first) {
    bad_safetensors(name, text("InvalidOffset(", shortened(entry.name), ")"),
                    text("[", first, ", ", last, "]"),
                    text("bytes that begin at ", begin, ": no hole, no overlap"));
  }
  const std::uint64_t bytes = bytes_of(entry, *stored_type_of(*entry.dtype), name);
  if (last - first != bytes) {
    bad_safetensors(name, "TensorInvalidInfo",
                    text("tensor ", shortened(entry.name), " of ", last - first, " bytes"),
                    text(bytes, " bytes for its shape and type"));
  }
  if (last > kMostCount) {
    bad_safetensors(name, "ValidationOverflow", text("offset ", last), "at most 2^63 - 1");
  }
  SafetensorsEntry result = {.name = std::move(entry.name),
                             .dtype = std::move(*entry.dtype),
                             .begin = static_cast<std::int64_t>(first),
                             .end = static_cast<std::int64_t>(last)};
  result.shape.assign(entry.shape->begin(), entry.shape->end());
  return result;
}

// 0 for a byte that cannot begin a character, otherwise the bytes of the character.
std::size_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if ((lead & 0xF0) == 0xE0) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

bool is_utf8(std::string_view bytes) {
  for (std::size_t place = 0; place < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[place]);
    const std::size_t length = utf8_length(lead);
    if (length == 0 || place + length > bytes.size()) return false;
    for (std::size_t next = 1; next < length; ++next) {
      if ((static_cast<unsigned char>(bytes[place + next]) & 0xC0) != 0x80) return false;
    }
    if (length >= 3) {  // overlong forms, surrogates and what lies above U+10FFFF
      const auto second = static_cast<unsigned char>(bytes[place + 1]);
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
          (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) {
        return false;
      }
    }
    place += length;
  }
  return true;
}

}  // namespace

void bad_safetensors(const std::string& name, const std::string& official_error, std::string found,
                     std::string expected, std::string fix) {
  throw Error(ErrorCode::kCorruptData, {.what = text(name, ": ", official_error),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = std::move(fix)});
}

SafetensorsHeader parse_safetensors_header(const std::string& json, std::int64_t data_bytes,
                                           const std::string& name) {
  if (!is_utf8(json)) bad_safetensors(name, "InvalidHeader", "bytes that are no UTF-8", "UTF-8");
  HeaderHandler handler(name);
  // The JSON library takes a NUL for the end and skips a byte order mark.
  if (json.find('\0') != std::string::npos || json.starts_with("\xEF\xBB\xBF")) {
    handler.refuse("a NUL or a byte order mark", "plain JSON");
  }
  nlohmann::json::sax_parse(json, &handler);
  for (const RawEntry& entry : handler.entries) {
    check_complete(entry, handler);
  }
  std::stable_sort(handler.entries.begin(), handler.entries.end(),
                   [](const RawEntry& a, const RawEntry& b) { return a.offsets < b.offsets; });
  SafetensorsHeader header = {.metadata = std::move(handler.metadata)};
  std::int64_t end = 0;
  for (RawEntry& entry : handler.entries) {
    header.tensors.push_back(checked(entry, static_cast<std::uint64_t>(end), name));
    end = header.tensors.back().end;
  }
  if (end != data_bytes) {
    const auto in_file = static_cast<std::int64_t>(json.size()) + 8;
    bad_safetensors(name, "MetadataIncompleteBuffer",
                    end > data_bytes ? "a truncated file" : "bytes after the last tensor",
                    text(static_cast<std::uint64_t>(end) + static_cast<std::uint64_t>(in_file),
                         " bytes, file has ", in_file + data_bytes),
                    "the download was probably interrupted: fetch the file again");
  }
  return header;
}

}  // namespace hethub
