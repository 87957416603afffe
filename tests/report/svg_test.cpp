#include "hethub/report/svg.h"

#include <cmath>

#include <gtest/gtest.h>

namespace hethub {
namespace {

TEST(Svg, what_html_reads_as_its_own_is_escaped) {
  EXPECT_EQ(escaped(R"(<b a="1" c='2'>&)"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
  EXPECT_EQ(escaped("plain, 5–7 µs"), "plain, 5–7 µs");
}

TEST(Svg, texts_and_titles_of_a_drawing_are_escaped) {
  SvgWriter svg(10, 10, "<a>");
  svg.text({1, 2}, "<b>");
  svg.rect({0, 0, 1, 1}, "bar", "</title><script>");
  const std::string out = std::move(svg).finish();
  EXPECT_EQ(out.find("<a>"), std::string::npos);
  EXPECT_EQ(out.find("<b>"), std::string::npos);
  EXPECT_EQ(out.find("<script>"), std::string::npos);
  EXPECT_NE(out.find("&lt;b&gt;"), std::string::npos);
}

TEST(Svg, a_shortened_text_ends_between_characters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abcde…");
  EXPECT_EQ(shortened("ab–defg", 5), "ab…");
}

TEST(Svg, numbers_are_written_without_an_exponent_where_they_are_short) {
  EXPECT_EQ(number_text(0.20414), "0.2041");
  EXPECT_EQ(number_text(123456), "123456");
  EXPECT_EQ(number_text(std::nan("")), "–");
  EXPECT_EQ(seconds_text(0.20414), "204.1 ms");
  EXPECT_EQ(seconds_text(2e-5), "20 µs");
  EXPECT_EQ(seconds_text(12.5), "12.5 s");
}

TEST(Svg, ticks_are_round_ascending_and_inside_their_range) {
  for (const auto& [low, high] : {std::pair{0.0, 1.0}, {-3.0, 7.5}, {0.0, 2e-5}, {4.1, 4.2}}) {
    for (int count = 2; count <= 12; ++count) {
      const std::vector<double> all = ticks(low, high, count);
      ASSERT_FALSE(all.empty());
      EXPECT_LE(all.size(), static_cast<std::size_t>(count) + 1);
      for (std::size_t index = 0; index < all.size(); ++index) {
        EXPECT_GE(all[index], low - 1e-9);
        EXPECT_LE(all[index], high + 1e-9);
        if (index > 0) {
          EXPECT_GT(all[index], all[index - 1]);
        }
      }
    }
  }
  EXPECT_EQ(ticks(2, 2, 5), std::vector<double>{2});
}

}  // namespace
}  // namespace hethub
