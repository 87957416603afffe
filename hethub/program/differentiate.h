#pragma once

#include <set>

#include "hethub/program/program.h"

namespace hethub {

struct DifferentiateOptions {
  /// Layers whose forward values are dropped, but for their input, and computed again in backward.
  std::set<int> recompute_layers = {};

  /// Layers of which only the results of matrix products and of group ops are kept: attention and
  /// the cheap ops are computed again. Source: Korthikanti et al., "Reducing activation
  /// recomputation in large transformer models", MLSys 2023, applied to attention that keeps no
  /// score matrix.
  std::set<int> selective_layers = {};

  /// Put the parameters' gradients into `backward_weight`, so that a schedule can delay them.
  bool split = false;
};

/// Writes the backward pass of `program`, whose forward pass is complete, and adds the gradient
/// values: of the SUM of `losses` if the program has them, else from `received_gradient`. Each
/// parameter gets one kGradient value called "NAME.grad", to which every use adds.
///
/// There is no graph at run time: the rules (gradient_rules.h) are applied here, once.
void differentiate(Program& program, const DifferentiateOptions& options = {});

}  // namespace hethub
