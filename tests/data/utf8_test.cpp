#include "hethub/data/utf8.h"

#include <gtest/gtest.h>

namespace hethub {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

TEST(Utf8, every_code_point_that_is_written_is_read_as_valid) {
  for (std::uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string bytes;
    append_utf8(code_point, bytes);
    ASSERT_EQ(first_invalid_utf8(bytes), kNone) << code_point;
    ASSERT_EQ(bytes.size(), code_point < 0x80      ? 1
                            : code_point < 0x800   ? 2
                            : code_point < 0x10000 ? 3
                                                   : 4);
  }
}

// 1,112,064 characters are all there are, so anything beyond them among 1- to 3-byte strings, which
// hold 63,488 of them, must be refused.
TEST(Utf8, no_other_string_of_up_to_three_bytes_is_one_character) {
  std::int64_t valid = 0;
  for (int first = 0x80; first < 256; ++first) {
    const std::string one(1, static_cast<char>(first));
    ASSERT_EQ(first_invalid_utf8(one), 0U);
    for (int second = 0x80; second < 256; ++second) {
      const std::string two = one + static_cast<char>(second);
      valid += first_invalid_utf8(two) == kNone ? 1 : 0;
      for (int third = 0x80; third < 256; ++third) {
        valid += first_invalid_utf8(two + static_cast<char>(third)) == kNone ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(valid, 0x10000 - 0x80 - 0x800);
}

TEST(Utf8, the_first_invalid_byte_is_named_after_any_number_of_valid_ones) {
  for (std::size_t before = 0; before < 40; ++before) {
    EXPECT_EQ(first_invalid_utf8(std::string(before, 'a') + "\xC3" + "bbbbbbbbbbbb"), before);
  }
}

// The right-hand sides are what Python 3.11 prints for bytes.decode(errors="replace").
TEST(Utf8, broken_characters_are_replaced_as_python_does) {
  EXPECT_EQ(replaced_utf8("a\xFF"
                          "b"),
            "a\uFFFDb");
  EXPECT_EQ(replaced_utf8("\xF0\x90\x80"
                          "A"),
            "\uFFFDA");
  EXPECT_EQ(replaced_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced_utf8("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(replaced_utf8("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(replaced_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replaced_utf8("\xE2\x82\xAC"), "\u20AC");
}

}  // namespace
}  // namespace hethub
