#pragma once

#include <cstdint>

namespace hethub {

/// Serves the small blocks that a library asks of operator new during one call.
///
/// While one is alive, operator new on this thread takes from a slab that exists from the start of
/// the process, so a call of the matrix library in a step asks nothing of the allocator. What does
/// not fit comes from malloc as ever. Blocks may be freed later and on any thread. In sanitizer
/// builds, which replace operator new themselves, it does nothing.
class LibraryMemory {
 public:
  LibraryMemory();
  ~LibraryMemory();
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;

 private:
  int slab_ = -1;
};

}  // namespace hethub
