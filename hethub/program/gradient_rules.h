#pragma once

#include <functional>
#include <vector>

#include "hethub/program/program.h"

namespace hethub {

/// What a gradient rule may ask for while it writes the backward ops of one instruction.
struct GradientWriter {
  /// Appends an op that makes a gradient of an activation; returns its outputs.
  std::function<std::vector<int>(Op op, const std::vector<int>& inputs)> emit = {};

  /// Appends an op that adds to a parameter's gradient; its last input is that gradient.
  std::function<void(Op op, std::vector<int> inputs, int parameter)> emit_weight = {};

  /// Tells that `gradient` is (a part of) the gradient of `value`.
  std::function<void(int value, int gradient)> add = {};

  /// Whether anybody wants the gradient of `value`.
  std::function<bool(int value)> wanted = {};
};

/// Writes the gradient of one forward instruction. `gradient` is that of its first output, or -1
/// for a loss. Throws kUnsupported, naming the op, if it has no rule.
void write_gradient(const Instruction& forward, int gradient, const GradientWriter& writer);

/// The forward values that the rule of this instruction reads, which must still be there (or be
/// computed again) in the backward pass.
std::vector<int> values_kept_for_gradient(const Instruction& forward);

}  // namespace hethub
