#pragma once

#include "hethub/model/decoder.h"

namespace hethub {

/// What one layer of a model keeps of a micro-batch from its forward to its backward pass.
struct LayerActivations {
  std::int64_t kept_bytes = 0;  ///< by our program of the layer, without recompute

  /// The same by Megatron's count of a layer whose attention is recomputed and whose matrix
  /// products are not, the inputs of its ops at the dtype's size: 34·s·b·h bytes for GPT in 16
  /// bits, less the 2·s·b·h of dropout's masks, which no model here has. By width of what is read:
  /// each norm and what it feeds 4 hidden sizes, q and the output's projection 2 of all heads, k
  /// and v 2 of the key heads, the MLP 2 (GELU) or 3 (gated) of its own; a norm of q and k those
  /// two more. 0 for mixtures of experts, which it does not count. Source: Korthikanti et al.,
  /// "Reducing activation recomputation in large transformer models", arXiv 2205.05198, section 4.1
  /// and table 2.
  std::int64_t formula_bytes = 0;

  /// What that count leaves out as small: an f32 number a row of each norm (two of a layer norm),
  /// and the log of the sum of a softmax for each row and head.
  std::int64_t statistics_bytes = 0;
};

/// Of the first layer, on one rank.
LayerActivations layer_activations(const ModelConfig& model, const BatchShape& shape);

}  // namespace hethub
