#include "hethub/data/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/data/index_layout.h"

namespace hethub {
namespace {

constexpr std::int64_t kBlockValues = 4096;

constexpr std::array<TokenType, 6> kIntegerTypes = {TokenType::kU8,  TokenType::kI8,
                                                    TokenType::kI16, TokenType::kI32,
                                                    TokenType::kI64, TokenType::kU16};

template <typename T>
T value_at(std::span<const std::byte> bytes, std::int64_t index) {
  T value = {};
  std::memcpy(&value, bytes.data() + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// An array of an .idx file, read a block at a time.
template <typename T>
class BlockReader {
 public:
  BlockReader(const InputFile& file, std::int64_t first_byte)
      : file_(file), byte_(first_byte), block_(kBlockValues * sizeof(T)) {}

  // The next value; the caller has checked that the file holds it. 0 if it has shrunk since.
  T next() {
    if (at_ == kBlockValues) {
      std::fill(block_.begin(), block_.end(), std::byte{0});
      file_.read_at(byte_, block_);
      byte_ += static_cast<std::int64_t>(block_.size());
      at_ = 0;
    }
    return value_at<T>(block_, at_++);
  }

 private:
  const InputFile& file_;
  std::int64_t byte_;
  std::int64_t at_ = kBlockValues;
  std::vector<std::byte> block_;
};

}  // namespace

IndexedDataset::IndexedDataset(const std::string& prefix, std::int64_t vocabulary_size)
    : index_(prefix + ".idx"), bin_(prefix + ".bin"), vocabulary_size_(vocabulary_size) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  require(vocabulary_size >= 1 && vocabulary_size <= kMost, {.what = "vocabulary size",
                                                             .found = text(vocabulary_size),
                                                             .expected = text("1 to ", kMost),
                                                             .fix = "pass the model's vocab_size"});
  read_header();
  check_sequences();
  check_documents();
  check_bin_size();
}

void IndexedDataset::read_header() {
  const std::int64_t size = index_.size();
  if (size < IndexLayout::kHeaderBytes) {
    corrupt_index("size", text(size, " bytes"), "a header of 34 bytes");
  }
  std::array<std::byte, IndexLayout::kMagic.size()> magic = {};
  index_.read_at(0, magic);
  if (std::memcmp(magic.data(), IndexLayout::kMagic.data(), magic.size()) != 0) {
    corrupt_index("first 9 bytes", "others", "MMIDIDX and two zero bytes");
  }
  const auto version = index_value<std::uint64_t>(IndexLayout::kVersionByte);
  if (version != IndexLayout::kVersion) corrupt_index("version", text(version), "1");
  const int code = index_value<std::uint8_t>(IndexLayout::kTypeByte);
  const auto* type = std::find_if(kIntegerTypes.begin(), kIntegerTypes.end(),
                                  [&](TokenType known) { return row_of(known).code == code; });
  if (type == kIntegerTypes.end()) {
    corrupt_index("type code", text(code), "a type of integers: 1, 2, 3, 4, 5 or 8");
  }
  type_ = *type;
  const auto sequences = index_value<std::uint64_t>(IndexLayout::kSequencesByte);
  const auto entries = index_value<std::uint64_t>(IndexLayout::kDocumentsByte);
  const auto room = static_cast<std::uint64_t>(size - IndexLayout::kHeaderBytes);
  if (sequences > room / 12 || entries > room / 8) {  // so that what follows cannot overflow
    corrupt_index("counts", text(sequences, " sequences and ", entries, " document entries"),
                  text("no more than its ", size, " bytes can hold"));
  }
  const IndexLayout layout = {.sequences = static_cast<std::int64_t>(sequences),
                              .document_entries = static_cast<std::int64_t>(entries)};
  const std::int64_t modes = layout.sequences;
  if (size != layout.end() && size != layout.end() + modes) {
    corrupt_index("size", text(size, " bytes"),
                  text(layout.end(), " bytes for ", sequences, " sequences and ", entries,
                       " document entries, or ", layout.end() + modes, " with modes"));
  }
  if (entries == 0) corrupt_index("document entries", "0", "at least 1");
  sequences_ = layout.sequences;
  documents_ = layout.document_entries - 1;
  has_modes_ = modes > 0 && size != layout.end();
}

// Sequences lie back to back, so that a position in the joined tokens is a place in the .bin.
void IndexedDataset::check_sequences() {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 59;
  const IndexLayout layout = {.sequences = sequences_, .document_entries = documents_ + 1};
  const std::int64_t token_bytes = row_of(type_).bytes;
  BlockReader<std::int32_t> lengths(index_, layout.length(0));
  BlockReader<std::int64_t> pointers(index_, layout.pointer(0));
  lengths_.least = sequences_ == 0 ? 0 : std::numeric_limits<std::int64_t>::max();
  for (std::int64_t sequence = 0; sequence < sequences_; ++sequence) {
    const std::int64_t length = lengths.next();
    const std::int64_t pointer = pointers.next();
    if (length < 0 || tokens_ > kMostTokens) {
      corrupt_index(text("length of sequence ", sequence), text(length), "0 to 2147483647");
    }
    if (pointer != tokens_ * token_bytes) {
      corrupt_index(text("pointer of sequence ", sequence), text(pointer),
                    text(tokens_ * token_bytes, ", where the one before ends"));
    }
    tokens_ += length;
    lengths_.empty += length == 0 ? 1 : 0;
    lengths_.least = std::min(lengths_.least, length);
    lengths_.most = std::max(lengths_.most, length);
  }
}

void IndexedDataset::check_documents() const {
  const IndexLayout layout = {.sequences = sequences_, .document_entries = documents_ + 1};
  BlockReader<std::int64_t> firsts(index_, layout.document(0));
  std::int64_t last = 0;
  for (std::int64_t document = 0; document <= documents_; ++document) {
    const std::int64_t first = firsts.next();
    if ((document == 0 && first != 0) || first < last || first > sequences_) {
      corrupt_index(text("first sequence of document ", document), text(first),
                    document == 0 ? "0" : text(last, " to ", sequences_));
    }
    last = first;
  }
  if (last == sequences_) return;
  corrupt_index("last document entry", text(last), text(sequences_, ", the number of sequences"));
}

void IndexedDataset::check_bin_size() const {
  const std::int64_t found = bin_.size();
  if (found < tokens_ * row_of(type_).bytes) bin_too_short(found);
}

void IndexedDataset::bin_too_short(std::int64_t found) const {
  throw Error(ErrorCode::kCorruptData,
              {.what = bin_.path() + ": size",
               .found = text(found, " bytes"),
               .expected = text(tokens_ * row_of(type_).bytes, " bytes for ", tokens_,
                                " tokens of ", row_of(type_).name, " as ", index_.path(), " says"),
               .fix = "copy the file again whole, or tokenize again"});
}

IndexRange IndexedDataset::sequence(std::int64_t index) const {
  require(index >= 0 && index < sequences_, {.what = "sequence",
                                             .found = text(index),
                                             .expected = text("0 to ", sequences_ - 1),
                                             .fix = "ask for one that is there"});
  const IndexLayout layout = {.sequences = sequences_, .document_entries = documents_ + 1};
  const std::int64_t begin = index_value<std::int64_t>(layout.pointer(index)) / row_of(type_).bytes;
  return {begin, begin + index_value<std::int32_t>(layout.length(index))};
}

IndexRange IndexedDataset::document(std::int64_t index) const {
  require(index >= 0 && index < documents_, {.what = "document",
                                             .found = text(index),
                                             .expected = text("0 to ", documents_ - 1),
                                             .fix = "ask for one that is there"});
  const IndexLayout layout = {.sequences = sequences_, .document_entries = documents_ + 1};
  return {index_value<std::int64_t>(layout.document(index)),
          index_value<std::int64_t>(layout.document(index + 1))};
}

void IndexedDataset::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || first > tokens_ - count) {
    throw Error(ErrorCode::kInvalidArgument, {.what = bin_.path() + ": tokens",
                                              .found = text(count, " from ", first, " on"),
                                              .expected = text("0 to ", tokens_ - 1),
                                              .fix = "ask for those that are there"});
  }
  switch (type_) {
    case TokenType::kU8:
      return read_as<std::uint8_t>(first, out);
    case TokenType::kI8:
      return read_as<std::int8_t>(first, out);
    case TokenType::kI16:
      return read_as<std::int16_t>(first, out);
    case TokenType::kI32:
      return read_as<std::int32_t>(first, out);
    case TokenType::kI64:
      return read_as<std::int64_t>(first, out);
    case TokenType::kU16:
      return read_as<std::uint16_t>(first, out);
  }
}

template <typename T>
void IndexedDataset::read_as(std::int64_t first, std::span<std::int32_t> out) const {
  std::array<std::byte, 16384> block = {};
  constexpr std::size_t kBlockTokens = sizeof(block) / sizeof(T);
  for (std::size_t done = 0; done < out.size();) {
    const std::size_t count = std::min(kBlockTokens, out.size() - done);
    const std::int64_t position = first + static_cast<std::int64_t>(done);
    const std::int64_t byte = position * static_cast<std::int64_t>(sizeof(T));
    const std::size_t found = bin_.read_at(byte, std::span(block).first(count * sizeof(T)));
    if (found < count * sizeof(T)) bin_too_short(bin_.size());
    for (std::size_t at = 0; at < count; ++at) {
      const T value = value_at<T>(block, static_cast<std::int64_t>(at));
      const std::int64_t id = +value;  // a negative int8 stays negative, and is refused
      if (id < 0 || id >= vocabulary_size_) {
        refuse_id(id, position + static_cast<std::int64_t>(at));
      }
      out[done + at] = static_cast<std::int32_t>(id);
    }
    done += count;
  }
}

void IndexedDataset::refuse_id(std::int64_t id, std::int64_t token) const {
  throw Error(
      ErrorCode::kCorruptData,
      {.what = text(bin_.path(), ": token ", token, " (byte ", token * row_of(type_).bytes, ")"),
       .found = text("id ", id),
       .expected = text("0 to ", vocabulary_size_ - 1),
       .fix = "use the tokenizer of this model, or a model whose vocab_size covers "
              "the tokenizer's"});
}

template <typename T>
T IndexedDataset::index_value(std::int64_t byte) const {
  std::array<std::byte, sizeof(T)> bytes = {};
  if (index_.read_at(byte, bytes) < sizeof(T)) {
    corrupt_index("size", text(index_.size(), " bytes"), text("more than ", byte));
  }
  return value_at<T>(bytes, 0);
}

void IndexedDataset::corrupt_index(const std::string& what, std::string found,
                                   std::string expected) const {
  throw Error(ErrorCode::kCorruptData, {.what = text(index_.path(), ": ", what),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = "copy the file again, or tokenize again"});
}

}  // namespace hethub
