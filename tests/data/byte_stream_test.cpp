#include "hethub/data/byte_stream.h"

#include <zlib.h>

#include "tests/data/test_files.h"

namespace hethub {
namespace {

void append_member(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "ab");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
}

std::string read_all(ByteStream& stream, std::size_t step) {
  std::string out;
  std::string part(step, '\0');
  while (true) {
    const std::size_t count = stream.read(std::as_writable_bytes(std::span(part)));
    out += part.substr(0, count);
    if (count < step) return out;
  }
}

std::string read_gzip(const std::string& path, std::size_t step = 1 << 16) {
  return read_all(*open_stream(path, Compression::kGzip), step);
}

std::string varied_text(int bytes) {
  std::string out;
  std::uint32_t state = 1;
  for (int byte = 0; byte < bytes; ++byte) {
    state = state * 1664525U + 1013904223U;
    out += static_cast<char>('a' + (state >> 28));
  }
  return out;
}

TEST(ByteStream, all_members_of_a_gzip_file_are_read_at_any_step) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.gz");
  const std::string large = varied_text(300'000);
  append_member(path, "first\n");
  append_member(path, "");
  append_member(path, large);
  append_member(path, "last");
  for (const std::size_t step : {1, 7, 65536, 1 << 20}) {
    EXPECT_EQ(read_gzip(path, step), "first\n" + large + "last") << step;
  }
}

TEST(ByteStream, a_gzip_file_cut_at_any_byte_inside_a_member_is_refused) {
  const TemporaryFolder folder;
  append_member(folder.path("one.gz"), varied_text(200));
  const std::string one = read_file(folder.path("one.gz"));
  const std::string two = one + one;
  for (std::size_t bytes = 1; bytes < two.size(); ++bytes) {
    const std::string path = folder.write("cut.gz", two.substr(0, bytes));
    if (bytes == one.size()) {
      EXPECT_EQ(read_gzip(path), varied_text(200));
      continue;
    }
    EXPECT_EQ(error_of([&] { read_gzip(path); }).code(), ErrorCode::kCorruptData) << bytes;
  }
}

TEST(ByteStream, what_follows_a_member_is_padding_or_an_error) {
  const TemporaryFolder folder;
  append_member(folder.path("a.gz"), "text");
  const std::string good = read_file(folder.path("a.gz"));
  EXPECT_EQ(read_gzip(folder.write("padded.gz", good + std::string(1000, '\0'))), "text");
  const std::string bad = folder.write("bad.gz", good + "not a member");
  const Error error = error_of([&] { read_gzip(bad); });
  EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
  EXPECT_TRUE(holds(error.what(), "bad.gz: gzip member 2"));
}

TEST(ByteStream, damage_is_found_by_the_checksum) {
  const TemporaryFolder folder;
  append_member(folder.path("a.gz"), varied_text(5000));
  const std::string good = read_file(folder.path("a.gz"));
  for (std::size_t byte = 10; byte < good.size(); byte += 37) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
    const std::string path = folder.write("bad.gz", bad);
    EXPECT_EQ(error_of([&] { read_gzip(path); }).code(), ErrorCode::kCorruptData) << byte;
  }
}

TEST(ByteStream, a_file_of_no_bytes_has_no_content_and_plain_text_is_no_gzip) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_gzip(folder.write("empty.gz", "")), "");
  const std::string plain = folder.write("plain.gz", "just text");
  EXPECT_EQ(error_of([&] { read_gzip(plain); }).code(), ErrorCode::kCorruptData);
}

TEST(ByteStream, a_missing_file_and_a_folder_are_missing_input) {
  const TemporaryFolder folder;
  const std::string missing = folder.path("none");
  EXPECT_EQ(error_of([&] { open_stream(missing, Compression::kNone); }).code(),
            ErrorCode::kMissingInput);
  EXPECT_EQ(error_of([&] { open_stream(folder.path("."), Compression::kNone); }).code(),
            ErrorCode::kMissingInput);
}

}  // namespace
}  // namespace hethub
