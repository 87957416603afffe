#include "hethub/data/document_reader.h"

#include <zlib.h>

#include "tests/data/test_files.h"

namespace hethub {
namespace {

using Texts = std::vector<std::string>;

struct Reading {
  Texts documents = {};
  InputTotals totals = {};
};

Reading read(const std::string& path, const ReadOptions& options = {}) {
  Reading out;
  const auto reader = open_documents(path, options, out.totals);
  Piece piece;
  bool open = false;
  while (reader->next(piece)) {
    if (!open) out.documents.emplace_back();
    out.documents.back() += piece.text;
    open = !piece.ends_document;
  }
  EXPECT_FALSE(open) << "the last document has no end";
  EXPECT_EQ(out.totals.documents, static_cast<std::int64_t>(out.documents.size()));
  return out;
}

TEST(DocumentReader, a_byte_order_mark_crlf_blank_lines_and_a_missing_last_newline_change_nothing) {
  const TemporaryFolder folder;
  const Reading odd =
      read(folder.write("odd.jsonl", "\xEF\xBB\xBF{\"text\":\"a\"}\r\n\r\n{\"text\":\"b\"}"));
  EXPECT_EQ(odd.documents, (Texts{"a", "b"}));
  EXPECT_EQ(odd.totals.lines, 3);
  EXPECT_EQ(odd.totals.blank, 1);
  EXPECT_EQ(odd.totals.bad, 0);
  EXPECT_EQ(odd.totals.text_bytes, 2);
}

TEST(DocumentReader, a_broken_line_is_named_by_its_physical_line_and_column) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("f.jsonl", "\xEF\xBB\xBF{\"text\":\"a\"}\r\n\n{\"text\":\"b\"}\n{\"text\":");
  const Error error = error_of([&] { read(path); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(holds(error.what(), "f.jsonl:4:9: "));
}

TEST(DocumentReader, columns_of_the_first_line_count_its_byte_order_mark) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f.jsonl", "\xEF\xBB\xBF{\"text\":");
  EXPECT_TRUE(holds(error_of([&] { read(path); }).what(), "f.jsonl:1:12: "));
}

TEST(DocumentReader, a_byte_order_mark_later_in_a_file_is_no_mark) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("f.jsonl", "{\"text\":\"a\"}\n\xEF\xBB\xBF{\"text\":\"b\"}\n");
  EXPECT_TRUE(holds(error_of([&] { read(path); }).what(), "f.jsonl:2:1: "));
  EXPECT_EQ(read(folder.write("f.txt", "a\xEF\xBB\xBF")).documents, (Texts{"a\xEF\xBB\xBF"}));
}

TEST(DocumentReader, empty_texts_are_documents_and_empty_files_hold_none) {
  const TemporaryFolder folder;
  const Reading records = read(folder.write("f.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n"));
  EXPECT_EQ(records.documents, (Texts{"", "a"}));
  EXPECT_EQ(records.totals.empty, 1);
  for (const char* name : {"e.jsonl", "e.jsonl.gz", "e.txt", "e.gz"}) {
    EXPECT_EQ(read(folder.write(name, "")).documents, Texts{}) << name;
  }
}

TEST(DocumentReader, bad_lines_are_skipped_and_counted_if_asked) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "f.jsonl",
      "{\"text\":\"a\"}\n{\"text\":\n{\"text\":\"\xFF\"}\n{\"text\":null}\n{\"text\":\"b\"}\n");
  const Reading reading = read(path, {.on_bad_line = BadLine::kSkip});
  EXPECT_EQ(reading.documents, (Texts{"a", "b"}));
  EXPECT_EQ(reading.totals.bad, 3);
  EXPECT_EQ(reading.totals.lines, 5);
}

TEST(DocumentReader, what_cannot_be_decoded_is_replaced_and_counted_once_a_line_if_asked) {
  const TemporaryFolder folder;
  const ReadOptions replace = {.on_bad_line = BadLine::kReplace};
  const std::string path = folder.write(
      "f.jsonl", "{\"text\":\"a\xFF\\ud800\"}\n{\"text\":\"\\ud800\"}\n{\"text\":\"b\"}\n");
  const Reading reading = read(path, replace);
  EXPECT_EQ(reading.documents, (Texts{"a\uFFFD\uFFFD", "\uFFFD", "b"}));
  EXPECT_EQ(reading.totals.bad, 2);
  const std::string broken = folder.write("g.jsonl", "{\"text\":\n");
  EXPECT_TRUE(holds(error_of([&] { read(broken, replace); }).what(), "g.jsonl:1:9: "));
}

TEST(DocumentReader, bytes_that_are_no_utf8_are_named_by_place) {
  const TemporaryFolder folder;
  const std::string records = folder.write("f.jsonl", "\n{\"text\":\"a\xFF\"}\n");
  EXPECT_TRUE(holds(error_of([&] { read(records); }).what(), "f.jsonl:2:11: "));
  const std::string plain = folder.write("f.txt", "ab\nc\xC3");
  EXPECT_TRUE(holds(error_of([&] { read(plain); }).what(), "f.txt:2:2: "));
  EXPECT_EQ(read(plain, {.on_bad_line = BadLine::kReplace}).documents, (Texts{"ab\nc\uFFFD"}));
  EXPECT_EQ(read(plain, {.on_bad_line = BadLine::kSkip}).documents, (Texts{"ab\n"}));
}

TEST(DocumentReader, a_text_file_is_one_document_or_one_a_paragraph) {
  const TemporaryFolder folder;
  const std::string content = "\n\nfirst\nsecond\n\n \t\nthird";
  const std::string path = folder.write("f.txt", content);
  EXPECT_EQ(read(path).documents, (Texts{content}));
  EXPECT_EQ(read(path, {.split_on_blank_lines = true}).documents,
            (Texts{"first\nsecond\n", "third"}));
}

TEST(DocumentReader, a_long_text_comes_in_pieces_of_whole_lines) {
  const TemporaryFolder folder;
  std::string content;
  for (int line = 0; content.size() < (3U << 20); ++line) {
    content += text("line ", line, " of a long text\n");
  }
  const std::string path = folder.write("f.txt", content);
  EXPECT_EQ(read(path).documents, (Texts{content}));
  InputTotals totals;
  const auto reader = open_documents(path, {}, totals);
  Piece piece;
  while (reader->next(piece)) {
    EXPECT_LT(piece.text.size(), 2U << 20);
    EXPECT_TRUE(piece.text.empty() || piece.text.back() == '\n');
  }
}

TEST(DocumentReader, compressed_files_are_read_to_the_end_of_their_last_member) {
  const TemporaryFolder folder;
  for (const char* name : {"f.jsonl.gz", "f.json.gz", "f.txt.gz", "f.gz", "f.dict.dz"}) {
    for (const char* line : {"{\"text\":\"a\"}\n", "{\"text\":\"b\"}\n"}) {
      gzFile file = gzopen(folder.path(name).c_str(), "ab");
      gzputs(file, line);
      gzclose(file);
    }
    const bool records = std::string_view(name).find("json") != std::string_view::npos;
    EXPECT_EQ(read(folder.path(name)).documents,
              records ? (Texts{"a", "b"}) : (Texts{"{\"text\":\"a\"}\n{\"text\":\"b\"}\n"}))
        << name;
  }
}

TEST(DocumentReader, a_line_over_the_bound_is_refused_whatever_the_policy) {
  const TemporaryFolder folder;
  const std::string path = folder.path("bomb.jsonl.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  const std::string zeros(1 << 20, '0');
  gzputs(file, "{\"text\":\"a\"}\n");
  for (int part = 0; part < 64; ++part) {
    gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
  }
  gzclose(file);
  const ReadOptions options = {.on_bad_line = BadLine::kSkip, .longest_line = 2 << 20};
  const Error error = error_of([&] { read(path, options); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(holds(error.what(), "bomb.jsonl.gz:2:1: "));
  EXPECT_TRUE(holds(error.what(), "--longest-line"));
}

TEST(DocumentReader, lines_of_any_length_up_to_the_bound_are_kept_whole) {
  const TemporaryFolder folder;
  for (const std::size_t length : {1U, 1000U, 262'143U, 262'144U, 262'145U, 600'000U}) {
    const std::string content = std::string(length - 1, 'x') + "\n" + "end";
    const std::string path = folder.write("f.txt", content);
    const ReadOptions exact = {.longest_line = static_cast<std::int64_t>(std::max(length, 3UL))};
    EXPECT_EQ(read(path, exact).documents, (Texts{content})) << length;
  }
}

TEST(DocumentReader, an_unknown_suffix_is_refused_with_those_known) {
  const TemporaryFolder folder;
  for (const char* name : {"f.zst", "f.parquet", "f.jsonl.zst", "f"}) {
    const std::string path = folder.write(name, "x");
    const Error error = error_of([&] { read(path); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << name;
    EXPECT_TRUE(holds(error.what(), ".jsonl.gz")) << name;
  }
}

TEST(DocumentReader, another_key_can_hold_the_text) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f.jsonl", "{\"text\":\"a\",\"content\":\"b\"}\n");
  EXPECT_EQ(read(path, {.text_key = "content"}).documents, (Texts{"b"}));
}

}  // namespace
}  // namespace hethub
