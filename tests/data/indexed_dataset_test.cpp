#include "hethub/data/indexed_dataset.h"

#include <cstring>
#include <limits>
#include <random>

#include "tests/data/test_files.h"

namespace hethub {
namespace {

using Documents = std::vector<std::vector<std::int32_t>>;

const Documents kThree = {{1, 2, 3}, {}, {65499}};

// What Megatron-LM's IndexedDatasetBuilder writes for kThree as uint16, worked out by hand from its
// source: 34 bytes of header, 3 lengths, 3 pointers, 4 document entries.
constexpr std::string_view kThreeIndexHex =
    "4d4d49444944580000"
    "0100000000000000"
    "08"
    "0300000000000000"
    "0400000000000000"
    "03000000"
    "00000000"
    "01000000"
    "0000000000000000"
    "0600000000000000"
    "0600000000000000"
    "0000000000000000"
    "0100000000000000"
    "0200000000000000"
    "0300000000000000";

std::string hex_of(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return out;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// An .idx built field by field, so that each can be wrong.
struct IndexFields {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::uint64_t sequences = 3;
  std::uint64_t entries = 4;
  std::vector<std::int32_t> lengths = {3, 0, 1};
  std::vector<std::int64_t> pointers = {0, 6, 6};
  std::vector<std::int64_t> documents = {0, 1, 2, 3};
  std::string modes = {};

  std::string bytes() const {
    return magic + bytes_of(std::vector{version}) + bytes_of(std::vector{code}) +
           bytes_of(std::vector{sequences, entries}) + bytes_of(lengths) + bytes_of(pointers) +
           bytes_of(documents) + modes;
  }
};

std::vector<std::int32_t> all_tokens(const IndexedDataset& dataset) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.tokens()));
  dataset.read(0, tokens);
  return tokens;
}

TEST(IndexedDataset, three_documents_are_written_byte_for_byte_as_megatron_does) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kU16, kThree);
  EXPECT_EQ(hex_of(read_file(folder.path("d.idx"))), kThreeIndexHex);
  EXPECT_EQ(hex_of(read_file(folder.path("d.bin"))), "010002000300dbff");
  EXPECT_EQ(folder.files(), 2U);
}

TEST(IndexedDataset, thirty_two_bit_ids_are_written_as_megatron_does) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kI32, {{65536 + 5, 7}, {9}});
  const IndexFields fields = {.code = 4,
                              .sequences = 2,
                              .entries = 3,
                              .lengths = {2, 1},
                              .pointers = {0, 8},
                              .documents = {0, 1, 2}};
  EXPECT_EQ(hex_of(read_file(folder.path("d.idx"))), hex_of(fields.bytes()));
  EXPECT_EQ(hex_of(read_file(folder.path("d.bin"))), "050001000700000009000000");
}

TEST(IndexedDataset, what_was_written_is_read_in_every_type) {
  for (const TokenType type : {TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kI32,
                               TokenType::kI64, TokenType::kU16}) {
    const TemporaryFolder folder;
    write_dataset(folder.path("d"), type, {{1, 2, 127}, {}, {5}, {0, 6}});
    const IndexedDataset dataset(folder.path("d"));
    EXPECT_EQ(dataset.type(), type);
    EXPECT_EQ(dataset.documents(), 4);
    EXPECT_EQ(all_tokens(dataset), (std::vector<std::int32_t>{1, 2, 127, 5, 0, 6}));
    EXPECT_EQ(dataset.sequence(3).begin, 4);
    EXPECT_EQ(dataset.sequence(3).end, 6);
    EXPECT_EQ(dataset.lengths().empty, 1);
    EXPECT_EQ(dataset.lengths().most, 3);
  }
}

TEST(IndexedDataset, long_reads_at_any_place_give_the_same_tokens) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = 0; token < 50'000; ++token) {
    tokens.push_back(token * 7 % 65'000);
  }
  write_dataset(folder.path("d"), TokenType::kU16, {tokens});
  const IndexedDataset dataset(folder.path("d"));
  for (const std::int64_t first : {0, 1, 8191, 8192, 30'000}) {
    std::vector<std::int32_t> part(20'000);
    dataset.read(first, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), tokens.begin() + first)) << first;
  }
}

TEST(IndexedDataset, documents_of_several_sequences_and_modes_are_read) {
  const TemporaryFolder folder;
  folder.write("d.bin", std::string(8, '\1'));
  folder.write("d.idx", IndexFields{.entries = 2, .documents = {0, 3}, .modes = "abc"}.bytes());
  const IndexedDataset dataset(folder.path("d"));
  EXPECT_TRUE(dataset.has_modes());
  EXPECT_EQ(dataset.documents(), 1);
  EXPECT_EQ(dataset.document(0).end, 3);
}

TEST(IndexedDataset, every_field_that_contradicts_another_is_refused_by_name) {
  using Case = std::pair<IndexFields, std::string>;
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::vector<Case> cases = {
      {{.magic = "MMIDIDX\1"}, "first 9 bytes"},
      {{.version = 2}, "version"},
      {{.code = 6}, "type code"},
      {{.code = 0}, "type code"},
      {{.sequences = 4}, "size"},
      {{.sequences = kHuge}, "counts"},
      {{.sequences = kHuge / 12 + 1}, "counts"},
      {{.entries = kHuge}, "counts"},
      {{.entries = 0, .documents = {}}, "document entries"},
      {{.lengths = {3, -1, 2}}, "length of sequence 1"},
      {{.pointers = {2, 6, 6}}, "pointer of sequence 0"},
      {{.pointers = {0, 6, 8}}, "pointer of sequence 2"},
      {{.documents = {1, 1, 2, 3}}, "first sequence of document 0"},
      {{.documents = {0, 2, 1, 3}}, "first sequence of document 2"},
      {{.documents = {0, 1, 2, 2}}, "last document entry"},
      {{.documents = {0, 1, 2, 4}}, "first sequence of document 3"},
      {{.modes = "ab"}, "size"},
  };
  for (const auto& [fields, what] : cases) {
    const TemporaryFolder folder;
    folder.write("d.bin", std::string(8, '\1'));
    folder.write("d.idx", fields.bytes());
    const Error error = error_of([&] { IndexedDataset(folder.path("d")); });
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << what;
    EXPECT_TRUE(holds(error.what(), "d.idx: " + what));
  }
}

TEST(IndexedDataset, a_truncated_bin_is_refused_with_the_sizes) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kU16, kThree);
  std::filesystem::resize_file(folder.path("d.bin"), 7);
  const Error error = error_of([&] { IndexedDataset(folder.path("d")); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(holds(error.what(), "d.bin: size, found 7 bytes, expected 8 bytes"));
}

TEST(IndexedDataset, a_bin_truncated_while_it_is_open_is_an_error_and_no_signal) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kU16, {std::vector<std::int32_t>(100'000, 3)});
  const IndexedDataset dataset(folder.path("d"));
  std::filesystem::resize_file(folder.path("d.bin"), 5000);
  EXPECT_EQ(error_of([&] { all_tokens(dataset); }).code(), ErrorCode::kCorruptData);
}

TEST(IndexedDataset, an_id_outside_the_vocabulary_is_named_by_its_position) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kU16, {{1, 2}, {3, 300}});
  const IndexedDataset dataset(folder.path("d"), 256);
  const Error error = error_of([&] { all_tokens(dataset); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(holds(error.what(), "d.bin: token 3 (byte 6), found id 300, expected 0 to 255"));
}

TEST(IndexedDataset, ids_that_are_negative_or_beyond_32_bits_are_refused) {
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{1} << 32, std::int64_t{1} << 62}) {
    const TemporaryFolder folder;
    folder.write("d.bin", bytes_of(std::vector{id}));
    folder.write("d.idx", IndexFields{.code = 5,
                                      .sequences = 1,
                                      .entries = 2,
                                      .lengths = {1},
                                      .pointers = {0},
                                      .documents = {0, 1}}
                              .bytes());
    const IndexedDataset dataset(folder.path("d"));
    EXPECT_EQ(error_of([&] { all_tokens(dataset); }).code(), ErrorCode::kCorruptData) << id;
  }
}

TEST(IndexedDataset, a_file_that_is_not_there_is_missing_input) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { IndexedDataset(folder.path("d")); }).code(), ErrorCode::kMissingInput);
}

TEST(IndexedDataset, tokens_past_the_end_are_refused) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kU16, kThree);
  const IndexedDataset dataset(folder.path("d"));
  std::vector<std::int32_t> two(2);
  for (const std::int64_t first :
       {std::int64_t{-1}, std::int64_t{3}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(error_of([&] { dataset.read(first, two); }).code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(error_of([&] { dataset.sequence(3); }).code(), ErrorCode::kInvalidArgument);
}

// Whatever the bytes: an Error, or a dataset whose tokens can be read or are refused by an Error.
TEST(IndexedDataset, mutated_index_bytes_are_an_error_or_read) {
  const std::string good = IndexFields{.modes = "abc"}.bytes();
  std::mt19937 random(11);
  int refused = 0;
  const TemporaryFolder folder;
  folder.write("d.bin", bytes_of(std::vector<std::uint16_t>{1, 2, 3, 4}));
  for (int turn = 0; turn < 1000; ++turn) {
    std::string bytes = good;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (turn % 3 == 0) bytes.resize(random() % (2 * good.size()));
    folder.write("d.idx", bytes);
    try {
      const IndexedDataset dataset(folder.path("d"), 100);
      all_tokens(dataset);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(IndexedDataset, the_type_follows_megatrons_rule) {
  EXPECT_EQ(token_type_for(257), TokenType::kU16);
  EXPECT_EQ(token_type_for(65'499), TokenType::kU16);
  EXPECT_EQ(token_type_for(65'500), TokenType::kI32);
  EXPECT_EQ(token_type_for(70'000), TokenType::kI32);
}

TEST(IndexedDatasetWriter, an_id_never_wraps_around) {
  const TemporaryFolder folder;
  IndexedDatasetWriter writer(folder.path("d"), TokenType::kU16);
  writer.append(std::vector<std::int32_t>{65'535});
  EXPECT_EQ(error_of([&] { writer.append(std::vector<std::int32_t>{65'536}); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { writer.append(std::vector<std::int32_t>{-1}); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(IndexedDatasetWriter, nothing_is_left_or_replaced_without_finish) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kU16, kThree);
  {
    IndexedDatasetWriter writer(folder.path("d"), TokenType::kI32);
    writer.append(std::vector<std::int32_t>{1});
    writer.end_document();
  }
  EXPECT_EQ(folder.files(), 2U);
  EXPECT_EQ(hex_of(read_file(folder.path("d.idx"))), kThreeIndexHex);
}

TEST(IndexedDatasetWriter, a_folder_that_is_not_there_cannot_be_written) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { IndexedDatasetWriter(folder.path("no/d"), TokenType::kU16); }).code(),
            ErrorCode::kCannotWrite);
}

}  // namespace
}  // namespace hethub
