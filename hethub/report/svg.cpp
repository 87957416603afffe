#include "hethub/report/svg.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "hethub/base/text.h"

namespace hethub {
namespace {

std::string printed(const char* format, int digits, double value) {
  std::array<char, 64> out = {};
  std::snprintf(out.data(), out.size(), format, digits, value);
  return out.data();
}

// A coordinate: hundredths of a pixel are enough.
std::string coordinate(double value) {
  std::string out = printed("%.*f", 2, value);
  while (out.back() == '0')
    out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;
  return text.substr(0, end) + "…";
}

std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "–";
  const double size = std::abs(value);
  if (size >= std::pow(10, digits) && size < 1e15) return printed("%.*f", 0, value);
  return printed("%.*g", digits, value);
}

std::string seconds_text(double seconds) {
  if (std::isnan(seconds)) return "–";
  if (std::abs(seconds) >= 1 || seconds == 0) return number_text(seconds) + " s";
  if (std::abs(seconds) >= 1e-3) return number_text(seconds * 1e3) + " ms";
  return number_text(seconds * 1e6) + " µs";
}

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough * 0.999) break;
  }
  std::vector<double> out;
  const double first = std::ceil(low / step - 1e-9);
  for (int index = 0; (first + index) * step <= high + step * 1e-9; ++index) {
    out.push_back((first + index) * step);
  }
  return out;
}

SvgWriter::SvgWriter(double width, double height, std::string_view label) {
  out_ = hethub::text("<svg viewBox=\"0 0 ", coordinate(width), ' ', coordinate(height),
                      "\" role=\"img\" aria-label=\"", escaped(label), "\">\n");
}

void SvgWriter::attributes(std::initializer_list<std::pair<std::string_view, double>> numbers,
                           std::string_view classes) {
  for (const auto& [name, value] : numbers) {
    out_ += hethub::text(' ', name, "=\"", coordinate(value), '"');
  }
  if (!classes.empty()) out_ += hethub::text(" class=\"", classes, '"');
}

void SvgWriter::close(std::string_view element, std::string_view title) {
  if (title.empty()) {
    out_ += "/>\n";
  } else {
    out_ += hethub::text("><title>", escaped(title), "</title></", element, ">\n");
  }
}

void SvgWriter::rect(const Box& box, std::string_view classes, std::string_view title) {
  out_ += "<rect";
  attributes({{"x", box.x}, {"y", box.y}, {"width", box.width}, {"height", box.height}}, classes);
  close("rect", title);
}

void SvgWriter::line(Point from, Point to, std::string_view classes) {
  out_ += "<line";
  attributes({{"x1", from.x}, {"y1", from.y}, {"x2", to.x}, {"y2", to.y}}, classes);
  close("line", "");
}

void SvgWriter::polyline(std::span<const Point> points, std::string_view classes) {
  out_ += "<polyline points=\"";
  for (const Point& point : points) {
    out_ += coordinate(point.x) + ',' + coordinate(point.y) + ' ';
  }
  out_ += '"';
  attributes({}, classes);
  close("polyline", "");
}

void SvgWriter::circle(Point center, double radius, std::string_view classes,
                       std::string_view title) {
  out_ += "<circle";
  attributes({{"cx", center.x}, {"cy", center.y}, {"r", radius}}, classes);
  close("circle", title);
}

void SvgWriter::text(Point at, std::string_view text, std::string_view classes) {
  out_ += "<text";
  attributes({{"x", at.x}, {"y", at.y}}, classes);
  out_ += hethub::text('>', escaped(text), "</text>\n");
}

std::string SvgWriter::finish() && { return std::move(out_) + "</svg>\n"; }

}  // namespace hethub
