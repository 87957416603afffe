#pragma once

// The same kernels as loops on the CPU: their index arithmetic runs where there is no GPU, and
// under sanitizers. For tests alone.

#include <cmath>

#include "hethub/accel/gpu/host/fibers.h"

#define HETHUB_KERNEL inline void
#define HETHUB_DEVICE inline
#define HETHUB_SHARED(type, name, count) static thread_local type name[count]

namespace hethub::gpu {

inline long block_index() { return position().block; }
inline int thread_index() { return position().thread; }
inline int block_threads() { return position().threads; }
inline void sync() { yield_to_block(); }

template <typename Kernel, typename... Arguments>
void launch_apart(void* /*stream*/, long blocks, int threads, Kernel kernel,
                  Arguments... arguments) {
  for (long block = 0; block < blocks; ++block) {
    for (int thread = 0; thread < threads; ++thread) {
      position() = {block, thread, threads};
      kernel(arguments...);
    }
  }
}

template <typename Kernel, typename... Arguments>
void launch_together(void* /*stream*/, long blocks, int threads, Kernel kernel,
                     Arguments... arguments) {
  run_blocks(blocks, threads, [&] { kernel(arguments...); });
}

}  // namespace hethub::gpu
