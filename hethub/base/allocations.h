#pragma once

#include <cstdint>

namespace hethub {

/// How often this process's operator new has asked malloc for memory so far, on any thread; -1 in a
/// program whose operator new does not count.
std::int64_t allocation_count();

/// Told by an operator new that counts: once for each time it asks malloc. Any thread.
void count_allocation() noexcept;

}  // namespace hethub
