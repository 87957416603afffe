#include "hethub/data/tokenize.h"

#include "tests/data/test_files.h"

namespace hethub {
namespace {

// A SentencePiece model file (protocol buffers, sentencepiece_model.proto) of <unk>, <s>, </s> and
// then the characters given, one piece each, up to `vocabulary_size` pieces.
class ModelWriter {
 public:
  static std::string model_of(int vocabulary_size, const std::string& last_piece) {
    ModelWriter writer;
    writer.add_piece("<unk>", 2);
    writer.add_piece("<s>", 3);
    writer.add_piece("</s>", 3);
    for (int piece = 3; piece + 1 < vocabulary_size; ++piece) {
      writer.add_piece(text("unused", piece), 1);
    }
    writer.add_piece(last_piece, 1);
    return writer.bytes_;
  }

 private:
  static std::string varint(std::size_t value) {
    std::string out;
    for (; value >= 128; value /= 128) {
      out += static_cast<char>(128 | value % 128);
    }
    return out + static_cast<char>(value);
  }

  // Fields: 1 piece (text), 2 score (float, here 0), 3 type (1 normal, 2 unknown, 3 control).
  void add_piece(const std::string& name, int type) {
    const std::string piece = "\x0A" + varint(name.size()) + name + "\x15" + std::string(4, '\0') +
                              "\x18" + static_cast<char>(type);
    bytes_ += "\x0A" + varint(piece.size()) + piece;
  }

  std::string bytes_;
};

std::vector<std::int32_t> tokens_in(const std::string& prefix) {
  const IndexedDataset dataset(prefix);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(dataset.tokens()));
  dataset.read(0, tokens);
  return tokens;
}

TEST(Tokenize, records_become_sequences_of_their_bytes) {
  const TemporaryFolder folder;
  const std::string input = folder.write("f.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\"}\n");
  const TokenizeTotals totals = tokenize({.inputs = {input}, .output_prefix = folder.path("d")});
  EXPECT_EQ(totals.tokens, 3);
  EXPECT_EQ(totals.type, TokenType::kU16);
  EXPECT_EQ(tokens_in(folder.path("d")), (std::vector<std::int32_t>{'a', 'b', 'c'}));
  EXPECT_EQ(IndexedDataset(folder.path("d")).documents(), 2);
}

TEST(Tokenize, odd_line_ends_give_the_same_files_as_clean_ones) {
  const TemporaryFolder folder;
  const std::string odd =
      folder.write("odd.jsonl", "\xEF\xBB\xBF{\"text\":\"a\"}\r\n\n{\"text\":\"b\"}");
  const std::string clean = folder.write("clean.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  const std::string empty = folder.write("empty.jsonl", "");
  tokenize({.inputs = {odd, empty}, .output_prefix = folder.path("odd")});
  tokenize({.inputs = {clean}, .output_prefix = folder.path("clean")});
  EXPECT_EQ(read_file(folder.path("odd.bin")), read_file(folder.path("clean.bin")));
  EXPECT_EQ(read_file(folder.path("odd.idx")), read_file(folder.path("clean.idx")));
}

TEST(Tokenize, an_empty_first_document_is_counted_and_leaves_no_trace) {
  const TemporaryFolder folder;
  const std::string input = folder.write("f.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n");
  for (const bool append_eod : {false, true}) {
    const TokenizeTotals totals =
        tokenize({.inputs = {input}, .output_prefix = folder.path("d"), .append_eod = append_eod});
    EXPECT_EQ(totals.input.documents, 2);
    EXPECT_EQ(totals.input.empty, 1);
    const IndexedDataset dataset(folder.path("d"));
    EXPECT_EQ(dataset.sequences(), 1);
    EXPECT_EQ(dataset.lengths().empty, 0);
    EXPECT_EQ(dataset.tokens(), append_eod ? 2 : 1);
  }
}

TEST(Tokenize, input_without_tokens_is_bad_data_and_leaves_no_files) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("f.jsonl", "{\"text\":\"\"}\n");
  const std::string nothing = folder.write("g.txt", "");
  const TokenizeOptions options = {.inputs = {empty, nothing}, .output_prefix = folder.path("d")};
  const Error error = error_of([&] { tokenize(options); });
  EXPECT_EQ(exit_status_of(error.code()), 65);
  EXPECT_TRUE(holds(error.what(), "no tokens"));
  EXPECT_EQ(folder.files(), 2U);
}

TEST(Tokenize, every_document_ends_with_the_id_for_that_if_asked) {
  const TemporaryFolder folder;
  const std::string input = folder.write("f.txt", "ab\n\nc");
  tokenize({.inputs = {input},
            .output_prefix = folder.path("d"),
            .append_eod = true,
            .read = {.split_on_blank_lines = true}});
  EXPECT_EQ(tokens_in(folder.path("d")),
            (std::vector<std::int32_t>{'a', 'b', '\n', 256, 'c', 256}));
}

TEST(Tokenize, a_text_longer_than_a_piece_stays_one_document) {
  const TemporaryFolder folder;
  std::string content;
  while (content.size() < (3U << 20)) {
    content += "some words on a line\n";
  }
  const std::string input = folder.write("f.txt", content);
  const TokenizeTotals totals =
      tokenize({.inputs = {input}, .output_prefix = folder.path("d"), .append_eod = true});
  EXPECT_EQ(totals.tokens, static_cast<std::int64_t>(content.size()) + 1);
  EXPECT_EQ(IndexedDataset(folder.path("d")).sequences(), 1);
}

TEST(Tokenize, a_vocabulary_over_16_bits_is_stored_in_32_and_never_wraps) {
  const TemporaryFolder folder;
  const std::string model =
      folder.write("big.model", ModelWriter::model_of(65'536 + 6, "\u2581Zebra"));
  const std::string input = folder.write("f.jsonl", "{\"text\":\"Zebra\"}\n");
  TokenizeOptions options = {
      .inputs = {input}, .tokenizer = model, .output_prefix = folder.path("d")};
  EXPECT_EQ(tokenize(options).type, TokenType::kI32);
  EXPECT_EQ(tokens_in(folder.path("d")), (std::vector<std::int32_t>{65'536 + 5}));

  options.dtype = "uint16";
  const Error error = error_of([&] { tokenize(options); });
  EXPECT_EQ(exit_status_of(error.code()), 78);
  EXPECT_TRUE(holds(error.what(), "--dtype uint16"));
}

TEST(Tokenize, an_unknown_dtype_and_missing_names_are_usage_errors) {
  const TemporaryFolder folder;
  const std::string input = folder.write("f.txt", "a");
  const TokenizeOptions wrong = {
      .inputs = {input}, .output_prefix = folder.path("d"), .dtype = "int8"};
  EXPECT_EQ(error_of([&] { tokenize(wrong); }).code(), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { tokenize({.inputs = {input}}); }).code(), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { tokenize({.output_prefix = "d"}); }).code(), ErrorCode::kUsage);
}

TEST(Tokenize, a_bad_line_late_in_the_input_leaves_the_older_files_as_they_were) {
  const TemporaryFolder folder;
  const std::string good = folder.write("f.jsonl", "{\"text\":\"a\"}\n");
  const std::string bad = folder.write("g.jsonl", "{\"text\":\"b\"}\n{\"text\":");
  tokenize({.inputs = {good}, .output_prefix = folder.path("d")});
  const TokenizeOptions options = {.inputs = {good, bad}, .output_prefix = folder.path("d")};
  EXPECT_TRUE(holds(error_of([&] { tokenize(options); }).what(), "g.jsonl:2:9: "));
  EXPECT_EQ(tokens_in(folder.path("d")), (std::vector<std::int32_t>{'a'}));
  EXPECT_EQ(folder.files(), 4U);
}

TEST(Tokenize, a_summary_says_what_is_in_a_dataset) {
  const TemporaryFolder folder;
  write_dataset(folder.path("d"), TokenType::kI32, {{5, 6, 7}, {}, {8}});
  const DatasetSummary summary = inspect_dataset(folder.path("d"));
  EXPECT_EQ(summary.documents, 3);
  EXPECT_EQ(summary.tokens, 4);
  EXPECT_EQ(summary.lengths.empty, 1);
  EXPECT_EQ(summary.lengths.most, 3);
  EXPECT_EQ(summary.first_tokens, (std::vector<std::int32_t>{5, 6, 7, 8}));
}

}  // namespace
}  // namespace hethub
