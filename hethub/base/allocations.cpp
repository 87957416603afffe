#include "hethub/base/allocations.h"

#include <atomic>

namespace hethub {
namespace {

// Process-wide, as operator new is; that also runs before main.
constinit std::atomic<std::int64_t> count = 0;

}  // namespace

std::int64_t allocation_count() {
  const std::int64_t seen = count.load(std::memory_order_relaxed);
  return seen == 0 ? -1 : seen;
}

void count_allocation() noexcept { count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace hethub
