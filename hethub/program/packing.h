#pragma once

#include <cstdint>
#include <vector>

namespace hethub {

/// Bytes needed during moments first..last (both included).
struct Interval {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// Offsets for intervals such that no two that are alive at once overlap, largest first and each as
/// low as it can be. `floor` is an offset that no interval may straddle: what starts below it must
/// end below it. `fixed` intervals have their offsets already. Returns the offsets of `intervals`.
struct Packing {
  std::vector<std::int64_t> offsets = {};
  std::int64_t end = 0;  ///< one past the highest byte used by `intervals`
};
Packing pack(const std::vector<Interval>& intervals, std::int64_t floor = 0,
             const std::vector<Interval>& fixed = {},
             const std::vector<std::int64_t>& fixed_offsets = {});

/// The largest sum of bytes alive at one moment.
std::int64_t most_alive(const std::vector<Interval>& intervals);

}  // namespace hethub
