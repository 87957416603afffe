#pragma once

#include <cstdint>

#include "hethub/accel/cpu/product.h"
#include "hethub/op/op.h"

namespace hethub {

/// The operands of one run of a kernel, in the order of facts_of.
struct Arguments {
  const void* inputs[8] = {};
  void* outputs[4] = {};
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
  int threads = 1;
  DType dtype = DType::kF32;  ///< of the op
};

/// One op's kernel.
template <typename T>
struct Kernel {
  void (*run)(const T& op, const Arguments& arguments) = nullptr;
};

/// A kernel for every op but the matrix products and the group ops; Kernel<T> is the one of T.
/// Levels with matrix tiles have one for products too.
///
/// A plain aggregate, since it is filled in files that are compiled for processors which this one
/// may not be: they must not emit inline functions that others could link to.
struct Kernels : Kernel<BiasGrad>,
                 Kernel<Embedding>,
                 Kernel<EmbeddingGrad>,
                 Kernel<RmsNorm>,
                 Kernel<RmsNormGradInput>,
                 Kernel<RmsNormGradGain>,
                 Kernel<Rope>,
                 Kernel<Attention>,
                 Kernel<AttentionGrad>,
                 Kernel<SiluMul>,
                 Kernel<SiluMulGrad>,
                 Kernel<Add>,
                 Kernel<Accumulate>,
                 Kernel<Fill>,
                 Kernel<CrossEntropy>,
                 Kernel<LogSumExp>,
                 Kernel<CrossEntropyPart>,
                 Kernel<CrossEntropyGrad>,
                 Kernel<SumSquares>,
                 Kernel<Convert>,
                 Kernel<LayerNorm>,
                 Kernel<LayerNormGradInput>,
                 Kernel<LayerNormGradGain>,
                 Kernel<AddBias>,
                 Kernel<Gelu>,
                 Kernel<GeluGrad>,
                 Kernel<Router>,
                 Kernel<RouterGrad>,
                 Kernel<SortChoices>,
                 Kernel<TakeRows>,
                 Kernel<SumRows>,
                 Kernel<SumRowsGradWeight>,
                 Kernel<AdamW> {
  /// Products of bf16 that are added up in f32 (with no bias) or rounded to bf16; null: the
  /// library's are used. Needs 32 KiB of workspace.
  void (*product)(const MatrixProduct& product, const MatrixOperands& operands,
                  int threads) = nullptr;
};

namespace x86_64_v2 {
extern const Kernels kKernels;
}
namespace x86_64_v3 {
extern const Kernels kKernels;
}
namespace x86_64_v4 {
extern const Kernels kKernels;
}

}  // namespace hethub
