#pragma once

#include <array>
#include <memory>

#include "hethub/accel/backend.h"
#include "hethub/accel/gpu/matrices.h"
#include "hethub/op/op.h"

namespace hethub::gpu {

/// The addresses of an op's operands on the device.
struct Operands {
  std::array<void*, 8> in = {};
  std::array<void*, 4> out = {};
  void* workspace = nullptr;
};

/// An op as launches of kernels.
class GpuOp : public PreparedOp {
 public:
  /// Queues it in a stream; `matrices` is the stream's library, or null without one.
  virtual void run(void* stream, Matrices* matrices, const Operands& operands) const = 0;
};

/// Throws kUnsupported, naming the op, for a group op, a dtype but f32, an odd head_dim of rope or
/// a head_dim of attention over 256.
std::unique_ptr<GpuOp> prepare_gpu_op(const Op& op);

}  // namespace hethub::gpu
