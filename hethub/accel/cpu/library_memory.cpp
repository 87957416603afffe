#include "hethub/accel/cpu/library_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "hethub/base/allocations.h"

namespace hethub {
namespace {

constexpr int kSlabs = 16;
constexpr std::size_t kSlabBytes = std::size_t{16} << 10;
constexpr std::size_t kAlignment = alignof(std::max_align_t);

// A slab is a stack of blocks that empties when its last block is freed. Only the thread that holds
// it takes from it; any thread may give back.
struct Slab {
  std::atomic<bool> held = false;
  std::atomic<int> live = 0;
  std::size_t used = 0;
};

// Process-wide because operator new is: a block must be known as ours by its address alone.
alignas(64) std::byte slab_memory[kSlabs][kSlabBytes];
Slab slabs[kSlabs];
thread_local int slab_of_thread = -1;

void* take(Slab& slab, std::byte* memory, std::size_t bytes) {
  if (slab.live.load(std::memory_order_acquire) == 0) slab.used = 0;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < bytes || rounded > kSlabBytes - slab.used) return nullptr;
  slab.live.fetch_add(1, std::memory_order_relaxed);
  void* block = memory + slab.used;
  slab.used += rounded == 0 ? kAlignment : rounded;
  return block;
}

// Which slab an address is in; -1 if in none.
int slab_of(const void* block) {
  const auto offset = reinterpret_cast<std::uintptr_t>(block) -
                      reinterpret_cast<std::uintptr_t>(&slab_memory[0][0]);
  return offset < sizeof slab_memory ? static_cast<int>(offset / kSlabBytes) : -1;
}

void* allocate(std::size_t bytes) {
  if (slab_of_thread >= 0) {
    void* block = take(slabs[slab_of_thread], slab_memory[slab_of_thread], bytes);
    if (block != nullptr) return block;
  }
  count_allocation();
  for (;;) {
    void* block = std::malloc(bytes == 0 ? 1 : bytes);
    if (block != nullptr) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void release(void* block) noexcept {
  const int slab = slab_of(block);
  if (slab < 0) {
    std::free(block);
  } else {
    slabs[slab].live.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace

LibraryMemory::LibraryMemory() {
  if (slab_of_thread >= 0) return;
  for (int slab = 0; slab < kSlabs; ++slab) {
    if (slabs[slab].held.exchange(true, std::memory_order_acquire)) continue;
    slab_of_thread = slab_ = slab;
    return;
  }
}

LibraryMemory::~LibraryMemory() {
  if (slab_ < 0) return;
  slab_of_thread = -1;
  slabs[slab_].held.store(false, std::memory_order_release);
}

}  // namespace hethub

// The library's other forms of new and delete call these two.
void* operator new(std::size_t bytes) { return hethub::allocate(bytes); }
void operator delete(void* block) noexcept { hethub::release(block); }
void operator delete(void* block, std::size_t /*bytes*/) noexcept { hethub::release(block); }
