#pragma once

// What kernels are written in and launched by on a GPU: CUDA and HIP spell it alike. A vendor's
// vendor.h includes its runtime, defines HETHUB_VENDOR and includes this.

#define HETHUB_KERNEL __global__ void
#define HETHUB_DEVICE __device__ inline
#define HETHUB_SHARED(type, name, count) __shared__ type name[count]

namespace hethub::gpu {

HETHUB_DEVICE long block_index() { return blockIdx.x; }
HETHUB_DEVICE int thread_index() { return threadIdx.x; }
HETHUB_DEVICE int block_threads() { return blockDim.x; }
/// Every thread of the block has come here.
HETHUB_DEVICE void sync() { __syncthreads(); }

/// Queues a kernel whose threads may wait for each other.
template <typename Kernel, typename... Arguments>
void launch_together(void* stream, long blocks, int threads, Kernel kernel,
                     Arguments... arguments) {
  if (blocks == 0) return;
  kernel<<<static_cast<unsigned>(blocks), threads, 0,
           static_cast<HETHUB_VENDOR(Stream_t)>(stream)>>>(arguments...);
}

/// Queues a kernel without sync().
template <typename Kernel, typename... Arguments>
void launch_apart(void* stream, long blocks, int threads, Kernel kernel, Arguments... arguments) {
  launch_together(stream, blocks, threads, kernel, arguments...);
}

}  // namespace hethub::gpu
