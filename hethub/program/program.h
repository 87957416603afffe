#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/op/op.h"

namespace hethub {

/// What a value is to the rank that holds it; it decides how long the value lives.
enum class ValueRole : std::uint8_t {
  kParameter,  ///< trained; lives for the whole run
  kGradient,   ///< of one parameter; summed over a step's micro-batches
  kCopy,       ///< a parameter in the type that ops compute in; made anew by each update
  kConstant,   ///< known when the program is built, e.g. a table of angles
  kInput,      ///< written by the host for each micro-batch: tokens, labels, positions
  kReceived,   ///< comes from a neighbouring stage
  kTemporary,  ///< made and used up within one micro-batch
};

/// One tensor of a program.
struct Value {
  std::string name = {};  ///< unique within the program; a parameter's is its Hugging Face name
  TensorSpec spec = {};
  ValueRole role = ValueRole::kTemporary;
  int copy_of = -1;  ///< of a kCopy: the parameter, which is f32
};

/// An op with the values it reads and writes, as positions in Program::values.
struct Instruction {
  Op op = {};
  std::vector<int> inputs = {};
  std::vector<int> outputs = {};
  int layer = -1;  ///< the transformer layer it belongs to; -1 for embedding and head

  /// The gradient that this instruction gives its first input is one rank's part: the sum over this
  /// group of the rank (see GroupStart::group) is the whole. -1: it is whole.
  int gradient_group = -1;
  int gradient_ranks = 1;  ///< members of that group

  /// Whether all of a group would give its parameter the same gradient: another of them does.
  bool parameter_gradient_elsewhere = false;
};

/// The parts of a program that a schedule's actions run one by one.
enum class Phase : std::uint8_t { kForward, kBackward, kBackwardWeight };
inline constexpr int kPhases = 3;

/// The phase as traces spell it: "forward", "backward", "backward_weight".
std::string_view name_of(Phase phase);

/// The content of one kConstant value, row by row: computed when it is asked for, since planners
/// build very many programs that never run.
struct Constant {
  int value = -1;
  std::function<std::vector<float>()> data = {};
};

/// What one position of a pipeline (a slice of the model) computes for one micro-batch: straight
/// lists of instructions over one table of values. Run by `accel`, priced by `predict`.
///
/// Values that cross a stage boundary are named here; -1 where the slice has none.
struct Program {
  std::string name = {};
  std::vector<Value> values = {};
  std::vector<Instruction> forward = {};
  std::vector<Instruction> backward = {};         ///< empty until differentiate()
  std::vector<Instruction> backward_weight = {};  ///< only if the backward pass was split
  std::vector<Constant> constants = {};

  int received_activation = -1;  ///< forward reads it; from the position before
  int sent_activation = -1;      ///< forward makes it; for the position after
  int received_gradient = -1;    ///< backward reads it: of sent_activation
  int sent_gradient = -1;        ///< backward makes it: of received_activation
  int losses = -1;               ///< f32[rows]: the last position's loss per token

  /// Adds a value and returns its position.
  int add_value(std::string value_name, TensorSpec spec, ValueRole role = ValueRole::kTemporary);

  /// The instructions of one phase.
  const std::vector<Instruction>& phase(Phase phase) const;

  /// The value called `value_name`, or -1.
  int find(std::string_view value_name) const;

  /// Positions of all values of one role, in order of their addition.
  std::vector<int> values_of(ValueRole role) const;

  /// How the gradient of a value is called.
  std::string gradient_name(int value) const;

  /// Adds the kCopy value of a parameter and returns its position.
  int add_copy(int parameter, DType dtype);

  /// The kGradient value of a parameter, or -1.
  int gradient_of(int parameter) const;
};

/// Appends an op's outputs as new temporaries and the instruction itself to `list`; returns the
/// outputs' positions. `op.name` also names its outputs ("NAME", "NAME.1", ...). An output that
/// updates an input is that input's value. Throws kInvalidArgument if an input's shape is not the
/// one that facts_of(op) states.
std::vector<int> append(Program& program, std::vector<Instruction>& list, Op op,
                        const std::vector<int>& inputs, int layer);

/// The program in lines such as "%7 layer0.q f32[64,32] = linear(%5, %6) rows=64 in=32 out=32".
std::string to_text(const Program& program);

}  // namespace hethub
