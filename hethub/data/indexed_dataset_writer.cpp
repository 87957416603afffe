#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/data/index_layout.h"
#include "hethub/data/indexed_dataset.h"

namespace hethub {
namespace {

constexpr std::array<TokenTypeRow, 6> kTokenTypes = {{
    {"uint8", 1, 1},
    {"int8", 2, 1},
    {"int16", 3, 2},
    {"int32", 4, 4},
    {"int64", 5, 8},
    {"uint16", 8, 2},
}};

// Appends the bytes of the tokens as T.
template <typename T>
void encode(std::span<const std::int32_t> tokens, std::vector<std::byte>& out) {
  out.resize(tokens.size() * sizeof(T));
  std::byte* place = out.data();
  for (const std::int32_t token : tokens) {
    if (token < 0 || !std::in_range<T>(token)) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "token id",
                   .found = text(token),
                   .expected = text("0 to ", std::int64_t{std::numeric_limits<T>::max()}),
                   .fix = "store the ids in a wider type"});
    }
    const T value = static_cast<T>(token);
    std::memcpy(place, &value, sizeof(T));
    place += sizeof(T);
  }
}

void encode(TokenType type, std::span<const std::int32_t> tokens, std::vector<std::byte>& out) {
  switch (type) {
    case TokenType::kU8:
      return encode<std::uint8_t>(tokens, out);
    case TokenType::kI8:
      return encode<std::int8_t>(tokens, out);
    case TokenType::kI16:
      return encode<std::int16_t>(tokens, out);
    case TokenType::kI32:
      return encode<std::int32_t>(tokens, out);
    case TokenType::kI64:
      return encode<std::int64_t>(tokens, out);
    case TokenType::kU16:
      return encode<std::uint16_t>(tokens, out);
  }
}

}  // namespace

const TokenTypeRow& row_of(TokenType type) {
  return kTokenTypes.at(static_cast<std::size_t>(type));
}

TokenType token_type_for(std::int64_t vocabulary_size) {
  constexpr std::int64_t kWideFrom = 65500;
  return vocabulary_size < kWideFrom ? TokenType::kU16 : TokenType::kI32;
}

IndexedDatasetWriter::IndexedDatasetWriter(std::string prefix, TokenType type)
    : prefix_(std::move(prefix)), type_(type), bin_(prefix_ + ".bin") {}

void IndexedDatasetWriter::append(std::span<const std::int32_t> tokens) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (document_tokens_ + static_cast<std::int64_t>(tokens.size()) > kMost) {
    throw Error(ErrorCode::kUnsupported, {.what = text("document ", documents(), ": its tokens"),
                                          .found = "more than 2147483647",
                                          .expected = "a length that fits 32 bits",
                                          .fix = "cut the document into several"});
  }
  encode(type_, tokens, encoded_);
  bin_.write(encoded_);
  document_tokens_ += static_cast<std::int64_t>(tokens.size());
}

void IndexedDatasetWriter::end_document() {
  lengths_.push_back(static_cast<std::int32_t>(document_tokens_));
  tokens_ += document_tokens_;
  document_tokens_ = 0;
}

void IndexedDatasetWriter::finish() {
  require(document_tokens_ == 0, {.what = "the last document",
                                  .found = "one that has not ended",
                                  .expected = "end_document after its tokens",
                                  .fix = "end it"});
  OutputFile index(prefix_ + ".idx");
  index.write(std::as_bytes(std::span(IndexLayout::kMagic)));
  index.write_value(IndexLayout::kVersion);
  index.write_value(row_of(type_).code);
  index.write_value(static_cast<std::uint64_t>(documents()));
  index.write_value(static_cast<std::uint64_t>(documents() + 1));
  index.write(std::as_bytes(std::span(lengths_)));
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    index.write_value(pointer);
    pointer += length * row_of(type_).bytes;
  }
  for (std::int64_t document = 0; document <= documents(); ++document) {
    index.write_value(document);
  }
  ::unlink((prefix_ + ".idx").c_str());  // an older index must not describe the new .bin
  bin_.commit();
  index.commit();
}

}  // namespace hethub
