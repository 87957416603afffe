#pragma once

#include <memory>
#include <string>

#include "hethub/accel/opencl/device.h"
#include "hethub/accel/opencl/launch.h"
#include "hethub/accel/opencl/program.h"

namespace hethub::opencl {

/// What making an op ready needs.
struct Preparation {
  Programs& programs;
  cl_device_id device;
  const DeviceLimits& limits;
  OpenclMatmul matmul;  ///< never kAuto
};

/// An op made ready. Throws kUnsupported, naming the op, for what this backend lacks.
std::unique_ptr<PreparedOp> prepare_op(const Op& op, const Preparation& with);

/// The options every program of ops on this dtype is built with, and `more`.
std::string build_options(const DeviceLimits& limits, DType dtype, const std::string& more = {});

// One file each; every overload makes one kind of op ready.
using Prepared = std::unique_ptr<PreparedOp>;
Prepared ready(const Linear& op, const Op& all, const Preparation& with);
Prepared ready(const LinearGradInput& op, const Op& all, const Preparation& with);
Prepared ready(const LinearGradWeight& op, const Op& all, const Preparation& with);
Prepared ready(const BiasGrad& op, const Op& all, const Preparation& with);
Prepared ready(const Embedding& op, const Op& all, const Preparation& with);
Prepared ready(const EmbeddingGrad& op, const Op& all, const Preparation& with);
Prepared ready(const RmsNorm& op, const Op& all, const Preparation& with);
Prepared ready(const RmsNormGradInput& op, const Op& all, const Preparation& with);
Prepared ready(const RmsNormGradGain& op, const Op& all, const Preparation& with);
Prepared ready(const Rope& op, const Op& all, const Preparation& with);
Prepared ready(const Attention& op, const Op& all, const Preparation& with);
Prepared ready(const AttentionGrad& op, const Op& all, const Preparation& with);
Prepared ready(const SiluMul& op, const Op& all, const Preparation& with);
Prepared ready(const SiluMulGrad& op, const Op& all, const Preparation& with);
Prepared ready(const Add& op, const Op& all, const Preparation& with);
Prepared ready(const Accumulate& op, const Op& all, const Preparation& with);
Prepared ready(const Fill& op, const Op& all, const Preparation& with);
Prepared ready(const Convert& op, const Op& all, const Preparation& with);
Prepared ready(const CrossEntropy& op, const Op& all, const Preparation& with);
Prepared ready(const LogSumExp& op, const Op& all, const Preparation& with);
Prepared ready(const CrossEntropyPart& op, const Op& all, const Preparation& with);
Prepared ready(const CrossEntropyGrad& op, const Op& all, const Preparation& with);
Prepared ready(const SumSquares& op, const Op& all, const Preparation& with);
Prepared ready(const LayerNorm& op, const Op& all, const Preparation& with);
Prepared ready(const LayerNormGradInput& op, const Op& all, const Preparation& with);
Prepared ready(const LayerNormGradGain& op, const Op& all, const Preparation& with);
Prepared ready(const AddBias& op, const Op& all, const Preparation& with);
Prepared ready(const Gelu& op, const Op& all, const Preparation& with);
Prepared ready(const GeluGrad& op, const Op& all, const Preparation& with);
Prepared ready(const Router& op, const Op& all, const Preparation& with);
Prepared ready(const RouterGrad& op, const Op& all, const Preparation& with);
Prepared ready(const SortChoices& op, const Op& all, const Preparation& with);
Prepared ready(const TakeRows& op, const Op& all, const Preparation& with);
Prepared ready(const SumRows& op, const Op& all, const Preparation& with);
Prepared ready(const SumRowsGradWeight& op, const Op& all, const Preparation& with);
Prepared ready(const ExpertLinear& op, const Op& all, const Preparation& with);
Prepared ready(const ExpertLinearGradInput& op, const Op& all, const Preparation& with);
Prepared ready(const ExpertLinearGradWeight& op, const Op& all, const Preparation& with);
Prepared ready(const AdamW& op, const Op& all, const Preparation& with);
Prepared ready(const GroupStart& op, const Op& all, const Preparation& with);
Prepared ready(const GroupWait& op, const Op& all, const Preparation& with);

/// The list as a prepared op.
template <typename... Launches>
Prepared launch_list(Launches&&... launches) {
  std::vector<Launch> list;
  (list.push_back(std::move(launches)), ...);
  return std::make_unique<LaunchList>(std::move(list));
}

}  // namespace hethub::opencl
