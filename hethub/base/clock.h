#pragma once

#include <chrono>

namespace hethub {

/// Seconds on a clock that never goes back; its zero means nothing. The ranks of one machine read
/// the same clock, so their times can be compared; those of two machines cannot.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hethub
