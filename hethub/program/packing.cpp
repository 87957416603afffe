#include "hethub/program/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hethub {
namespace {

struct Placed {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int first = 0;
  int last = 0;
};

bool alive_together(const Interval& a, const Placed& b) {
  return a.first <= b.last && b.first <= a.last;
}

// `placed` is sorted by begin.
std::int64_t lowest_fit(const Interval& wanted, std::int64_t floor,
                        const std::vector<Placed>& placed) {
  std::int64_t offset = 0;
  const auto step_over_floor = [&] {
    if (offset < floor && offset + wanted.bytes > floor) offset = floor;
  };
  step_over_floor();
  for (const Placed& other : placed) {
    if (!alive_together(wanted, other) || other.end <= offset) continue;
    if (other.begin >= offset + wanted.bytes) break;
    offset = other.end;
    step_over_floor();
  }
  return offset;
}

void insert(std::vector<Placed>& placed, const Interval& interval, std::int64_t offset) {
  const Placed item{offset, offset + interval.bytes, interval.first, interval.last};
  const auto by_begin = [](const Placed& a, const Placed& b) { return a.begin < b.begin; };
  placed.insert(std::upper_bound(placed.begin(), placed.end(), item, by_begin), item);
}

}  // namespace

Packing pack(const std::vector<Interval>& intervals, std::int64_t floor,
             const std::vector<Interval>& fixed, const std::vector<std::int64_t>& fixed_offsets) {
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return intervals[a].bytes > intervals[b].bytes;
  });
  std::vector<Placed> placed;
  for (std::size_t index = 0; index < fixed.size(); ++index) {
    insert(placed, fixed[index], fixed_offsets[index]);
  }
  Packing packing{.offsets = std::vector<std::int64_t>(intervals.size(), 0)};
  for (const std::size_t index : order) {
    if (intervals[index].bytes == 0) continue;
    const std::int64_t offset = lowest_fit(intervals[index], floor, placed);
    insert(placed, intervals[index], offset);
    packing.offsets[index] = offset;
    packing.end = std::max(packing.end, offset + intervals[index].bytes);
  }
  return packing;
}

std::int64_t most_alive(const std::vector<Interval>& intervals) {
  std::map<int, std::int64_t> change;
  for (const Interval& interval : intervals) {
    change[interval.first] += interval.bytes;
    change[interval.last + 1] -= interval.bytes;
  }
  std::int64_t alive = 0;
  std::int64_t most = 0;
  for (const auto& [moment, bytes] : change) {
    alive += bytes;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace hethub
