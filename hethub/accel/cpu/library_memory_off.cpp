#include "hethub/accel/cpu/library_memory.h"

namespace hethub {

LibraryMemory::LibraryMemory() = default;
LibraryMemory::~LibraryMemory() { slab_ = -1; }

}  // namespace hethub
