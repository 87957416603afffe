#pragma once

#include <memory>
#include <span>

#include "hethub/accel/backend.h"
#include "hethub/accel/cpu/affinity.h"
#include "hethub/accel/cpu/kernels/kernels.h"
#include "hethub/accel/cpu/matmul.h"

namespace hethub {

/// An op that the processor can run.
class CpuOp : public PreparedOp {
 public:
  virtual void run(std::span<const View> inputs, std::span<const View> outputs,
                   const View& workspace) = 0;
};

/// What ops are made with; it outlives them.
struct CpuTools {
  const Kernels* kernels = nullptr;
  const MatrixLibrary* matrices = nullptr;
  int threads = 1;
};

/// Makes an op ready to run. Throws kUnsupported for what the processor lacks.
std::unique_ptr<CpuOp> prepare_cpu_op(const CpuTools& tools, const Op& op);

}  // namespace hethub
