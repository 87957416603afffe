#include "count_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace hethub {
namespace {
std::atomic<std::int64_t> count = 0;
}  // namespace
std::int64_t allocations() { return count.load(); }
static void count_one() { count.fetch_add(1, std::memory_order_relaxed); }
}  // namespace hethub

// glibc's own, by the names that stay when a program replaces malloc.
extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT
void* __libc_realloc(void* block, std::size_t bytes);             // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT

void* malloc(std::size_t bytes) {
  hethub::count_one();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  hethub::count_one();
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  hethub::count_one();
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  hethub::count_one();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}
