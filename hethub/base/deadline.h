#pragma once

#include <chrono>

namespace hethub {

/// When a wait gives up. No wait is without one.
using Deadline = std::chrono::steady_clock::time_point;

/// The deadline that lies `seconds` ahead.
inline Deadline after_seconds(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace hethub
