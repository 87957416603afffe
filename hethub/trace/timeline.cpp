#include "hethub/trace/timeline.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace hethub {
namespace {

double first_begin(const std::vector<Span>& spans) {
  double first = std::numeric_limits<double>::infinity();
  for (const Span& span : spans) {
    first = std::min(first, span.begin_s);
  }
  return spans.empty() ? 0 : first;
}

}  // namespace

double makespan_s(const Timeline& timeline) {
  double last = first_begin(timeline.spans);
  for (const Span& span : timeline.spans) {
    last = std::max(last, span.end_s);
  }
  return last - first_begin(timeline.spans);
}

double busy_s(const Timeline& timeline, int rank, std::string_view lane) {
  std::vector<std::pair<double, double>> stretches;
  for (const Span& span : timeline.spans) {
    if (span.rank == rank && span.lane == lane) stretches.emplace_back(span.begin_s, span.end_s);
  }
  std::sort(stretches.begin(), stretches.end());
  double busy = 0;
  double counted_to = -std::numeric_limits<double>::infinity();
  for (const auto& [begin, end] : stretches) {
    busy += std::max(0.0, end - std::max(begin, counted_to));
    counted_to = std::max(counted_to, end);
  }
  return busy;
}

std::vector<int> ranks_of(const Timeline& timeline) {
  std::set<int> ranks;
  for (const Span& span : timeline.spans) {
    ranks.insert(span.rank);
  }
  return {ranks.begin(), ranks.end()};
}

double bubble_fraction(const Timeline& timeline, std::string_view lane) {
  const std::vector<int> ranks = ranks_of(timeline);
  const double whole = static_cast<double>(ranks.size()) * makespan_s(timeline);
  if (whole <= 0) return 0;
  double busy = 0;
  for (const int rank : ranks) {
    busy += busy_s(timeline, rank, lane);
  }
  return 1 - busy / whole;
}

Timeline merge(std::span<const Timeline> parts, const std::map<int, double>& clock_offset_s) {
  Timeline whole;
  for (const Timeline& part : parts) {
    if (whole.name.empty()) whole.name = part.name;
    whole.rank_names.insert(part.rank_names.begin(), part.rank_names.end());
    whole.dropped += part.dropped;
    for (Span span : part.spans) {
      const auto offset = clock_offset_s.find(span.rank);
      if (offset != clock_offset_s.end()) {
        span.begin_s -= offset->second;
        span.end_s -= offset->second;
      }
      whole.spans.push_back(std::move(span));
    }
  }
  const double zero = first_begin(whole.spans);
  for (Span& span : whole.spans) {
    span.begin_s -= zero;
    span.end_s -= zero;
  }
  const auto order = [](const Span& span) {
    return std::make_tuple(span.begin_s, span.rank, std::cref(span.lane), -span.end_s,
                           std::cref(span.name));
  };
  std::stable_sort(whole.spans.begin(), whole.spans.end(),
                   [&](const Span& a, const Span& b) { return order(a) < order(b); });
  return whole;
}

}  // namespace hethub
