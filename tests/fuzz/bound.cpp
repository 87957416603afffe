#include "tests/fuzz/bound.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// A connection's store for messages that nobody has asked for is 1 MiB; nothing that a peer says
// makes anything larger.
constexpr std::size_t kMostAllocation = std::size_t{2} << 20;
bool bounded = false;

void* allocate(std::size_t size) {
  if (bounded && size > kMostAllocation) std::abort();
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void hethub::bound_allocations() { bounded = true; }

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
