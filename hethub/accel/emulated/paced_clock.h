#pragma once

#include <algorithm>
#include <cstdint>

#include "hethub/base/deadline.h"

namespace hethub {

/// What a device that takes a given time for each piece of work would show on a clock. The work is
/// computed by a processor meanwhile; whoever waits for it sleeps until free_at().
/// Threads: one at a time.
class PacedClock {
 public:
  /// Adds work that takes `seconds`, begins once the device is free but not before it was `issued`,
  /// and was `computed` at that time. Returns whether the processor was later than the device would
  /// have been: the work then ends when it was computed.
  bool add(Deadline issued, double seconds, Deadline computed) {
    const auto length =
        std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
    const Deadline end = std::max(free_at_, issued) + length;
    free_at_ = std::max(end, computed);
    return computed > end;
  }

  /// When all work so far has ended.
  Deadline free_at() const { return free_at_; }

 private:
  Deadline free_at_ = {};
};

}  // namespace hethub
