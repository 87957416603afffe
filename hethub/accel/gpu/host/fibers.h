#pragma once

#include <functional>

namespace hethub::gpu {

/// Which thread of which block runs.
struct Position {
  long block = 0;
  int thread = 0;
  int threads = 1;
};

/// That of the kernel that this thread of the process runs.
Position& position();

/// Runs `kernel` once for each thread of each block. The threads of a block take turns: one runs
/// until it ends or calls yield_to_block().
void run_blocks(long blocks, int threads, const std::function<void()>& kernel);

/// Returns when every thread of the block has called it or ended.
void yield_to_block();

}  // namespace hethub::gpu
