#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hethub {

/// `text` as the content of an element or of a quoted attribute: the characters that HTML reads as
/// its own become references.
std::string escaped(std::string_view text);

/// `text`, or its beginning and "…" if it has more than `most` bytes; no character is cut.
std::string shortened(const std::string& text, std::size_t most);

/// `value` in at most `digits` significant digits, without an exponent where it is short enough
/// without: "0.2041", "1234"; "–" if it is NaN.
std::string number_text(double value, int digits = 4);

/// "204.1 ms", "1.53 s"; "–" if it is NaN.
std::string seconds_text(double seconds);

/// Round values from `low` to `high`, some `count` of them, ascending.
std::vector<double> ticks(double low, double high, int count);

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

/// Writes one drawing. Classes are of the page's style sheet and come from the code; all other
/// texts may hold anything.
class SvgWriter {
 public:
  /// `label` says what the drawing shows, for those who cannot see it.
  SvgWriter(double width, double height, std::string_view label);

  /// A box; `title` is shown when the pointer rests on it.
  void rect(const Box& box, std::string_view classes, std::string_view title = "");
  void line(Point from, Point to, std::string_view classes);
  void polyline(std::span<const Point> points, std::string_view classes);
  void circle(Point center, double radius, std::string_view classes, std::string_view title = "");
  void text(Point at, std::string_view text, std::string_view classes = "");

  /// The drawing as an element of HTML.
  std::string finish() &&;

 private:
  void attributes(std::initializer_list<std::pair<std::string_view, double>> numbers,
                  std::string_view classes);
  void close(std::string_view element, std::string_view title);

  std::string out_ = {};
};

}  // namespace hethub
