#pragma once

// What the kernels and the runtime of hethub/accel/gpu need of their vendor: CUDA.

#include <cuda_runtime.h>

using cudaDeviceProp_t = cudaDeviceProp;

#define HETHUB_VENDOR(name) cuda##name
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
  kernel<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      arguments...);
}

/// Queues a kernel without sync().
template <typename Kernel, typename... Arguments>
void launch_apart(void* stream, long blocks, int threads, Kernel kernel, Arguments... arguments) {
  launch_together(stream, blocks, threads, kernel, arguments...);
}

}  // namespace hethub::gpu
