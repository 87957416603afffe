#include "hethub/cost/costs.h"

#include <algorithm>
#include <cmath>

#include "hethub/base/error.h"

namespace hethub {

std::vector<std::string> emulated_in(const Costs& costs) {
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : costs.kinds) {
    if (kind.emulated) kinds.push_back(name);
  }
  return kinds;
}

double work_of(const Op& op) {
  const OpFacts facts = facts_of(op);
  return std::max(facts.flops, facts.bytes());
}

OpRow row_of(const Op& op, double seconds, int runs) {
  return {.op = std::string(facts_of(op).kind),
          .sizes = sizes_text(op),
          .dtype = std::string(name_of(op.dtype)),
          .seconds = seconds,
          .runs = runs,
          .work = work_of(op)};
}

LinkRate fit_link(const std::vector<LinkPoint>& points) {
  // Least squares of (a + b·x - t)/t: weights 1/t², so that small messages count as much as large.
  double w = 0, x = 0, t = 0, xx = 0, xt = 0;
  for (const LinkPoint& point : points) {
    const double weight = 1 / (point.seconds * point.seconds);
    w += weight;
    x += weight * point.bytes;
    t += weight * point.seconds;
    xx += weight * point.bytes * point.bytes;
    xt += weight * point.bytes * point.seconds;
  }
  const double spread = w * xx - x * x;
  require(points.size() >= 2 && spread > 1e-12 * w * xx && std::isfinite(spread),
          {.what = "fit of a link",
           .found = text(points.size(), " points"),
           .expected = "messages of two different sizes with positive times",
           .fix = "measure more sizes"});
  double slope = (w * xt - x * t) / spread;
  double start = (t - slope * x) / w;
  if (start < 0) {  // the best line through the origin
    start = 0;
    slope = xt / xx;
  }
  if (slope <= 0) {  // all sizes take equally long: as fast as the largest message shows at least
    slope = 1e-18;
    start = t / w;
  }
  return {.latency_s = start, .bytes_per_s = 1 / slope};
}

}  // namespace hethub
