#pragma once

#include <cstdint>
#include <string_view>

namespace hethub {

/// Where the parts of an .idx file lie. The arrays follow each other without alignment.
struct IndexLayout {
  static constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
  static constexpr std::uint64_t kVersion = 1;
  static constexpr std::int64_t kVersionByte = 9;
  static constexpr std::int64_t kTypeByte = 17;
  static constexpr std::int64_t kSequencesByte = 18;
  static constexpr std::int64_t kDocumentsByte = 26;
  static constexpr std::int64_t kHeaderBytes = 34;

  std::int64_t sequences = 0;
  std::int64_t document_entries = 0;  ///< documents + 1

  std::int64_t length(std::int64_t sequence) const { return kHeaderBytes + 4 * sequence; }
  std::int64_t pointer(std::int64_t sequence) const { return length(sequences) + 8 * sequence; }
  std::int64_t document(std::int64_t document) const { return pointer(sequences) + 8 * document; }
  std::int64_t end() const { return document(document_entries); }
};

}  // namespace hethub
