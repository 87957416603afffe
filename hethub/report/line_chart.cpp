#include <algorithm>
#include <cmath>
#include <limits>

#include "hethub/base/text.h"
#include "hethub/report/charts.h"

namespace hethub {
namespace {

constexpr double kWidth = 600;
constexpr double kHeight = 260;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 44;
constexpr double kBottom = 40;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // A range of one value has to be widened before anything can be placed in it.
  void widen(double share) {
    const double by = high > low ? share * (high - low) : std::max(std::abs(low), 1e-9) / 2;
    low -= by;
    high += by;
  }
};

class ChartWriter {
 public:
  ChartWriter(const LineChart& chart, Range x, Range y)
      : chart_(chart), x_(x), y_(y), svg_(kWidth, kHeight, chart.title) {}

  std::string write() {
    svg_.text({kLeft, 16}, chart_.title, "title");
    write_axes();
    double legend = kLeft;
    for (const Series& series : chart_.series) {
      write_series(series);
      svg_.line({legend, 30}, {legend + 18, 30}, "line " + series.classes);
      svg_.text({legend + 24, 34}, series.name);
      legend += 48 + 6.5 * static_cast<double>(series.name.size());
    }
    return std::move(svg_).finish();
  }

 private:
  Point at(Point value) const {
    const double x = (value.x - x_.low) / (x_.high - x_.low);
    const double y = (value.y - y_.low) / (y_.high - y_.low);
    return {kLeft + x * (kWidth - kLeft - kRight),
            kHeight - kBottom - y * (kHeight - kTop - kBottom)};
  }

  void write_axes() {
    for (const double tick : ticks(y_.low, y_.high, 5)) {
      const Point where = at({x_.low, tick});
      svg_.line(where, {kWidth - kRight, where.y}, "grid");
      svg_.text({where.x - 6, where.y + 4}, number_text(tick), "end");
    }
    for (const double tick : ticks(x_.low, x_.high, 8)) {
      if (tick != std::floor(tick)) continue;  // steps are whole
      const Point where = at({tick, y_.low});
      svg_.line(where, {where.x, where.y + 4}, "axis");
      svg_.text({where.x, where.y + 17}, number_text(tick, 12), "middle");
    }
    svg_.line(at({x_.low, y_.low}), at({x_.high, y_.low}), "axis");
    svg_.text({(kLeft + kWidth - kRight) / 2, kHeight - 6}, chart_.x_name, "middle soft");
    svg_.text({kWidth - kRight, 16}, chart_.y_name, "end soft");
  }

  void write_series(const Series& series) {
    std::vector<Point> run;
    for (const Point& point : series.points) {
      if (std::isfinite(point.y)) {
        run.push_back(at(point));
        continue;
      }
      svg_.polyline(run, "line " + series.classes);
      run.clear();
    }
    svg_.polyline(run, "line " + series.classes);
    for (const Point& point : series.points) {
      if (!series.dots || !std::isfinite(point.y)) continue;
      svg_.circle(at(point), 3, "dot " + series.classes,
                  text(series.name, ", ", chart_.x_name, ' ', number_text(point.x, 12), ": ",
                       number_text(point.y, 6)));
    }
  }

  const LineChart& chart_;
  Range x_;
  Range y_;
  SvgWriter svg_;
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  Range x;
  Range y;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (!std::isfinite(point.y)) continue;
      x.take(point.x);
      y.take(point.y);
    }
  }
  if (x.low > x.high) return "";
  if (chart.from_zero) y.low = std::min(y.low, 0.0);
  if (x.low == x.high) x.widen(0);
  const double zero = y.low;
  y.widen(0.06);
  if (chart.from_zero) y.low = zero;
  return ChartWriter(chart, x, y).write();
}

}  // namespace hethub
