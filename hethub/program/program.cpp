#include "hethub/program/program.h"

#include <array>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {
namespace {

std::string shape_text(const TensorSpec& spec) {
  std::string out = text(name_of(spec.dtype), "[");
  for (std::size_t axis = 0; axis < spec.shape.size(); ++axis) {
    out += text(axis == 0 ? "" : ",", spec.shape[axis]);
  }
  return out + "]";
}

std::string line_of(const Program& program, const Instruction& instruction) {
  std::string out = " ";
  for (const int value : instruction.outputs) {
    out += text(" %", value, " ", program.values[value].name, " ",
                shape_text(program.values[value].spec));
  }
  out += text(" = ", facts_of(instruction.op).kind, "(");
  for (std::size_t index = 0; index < instruction.inputs.size(); ++index) {
    out += text(index == 0 ? "%" : ", %", instruction.inputs[index]);
  }
  return out + text(") ", sizes_text(instruction.op), "\n");
}

}  // namespace

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"forward", "backward",
                                                            "backward_weight"};
  return kNames.at(static_cast<std::size_t>(phase));
}

int Program::add_value(std::string value_name, TensorSpec spec, ValueRole role) {
  values.push_back({.name = std::move(value_name), .spec = std::move(spec), .role = role});
  return static_cast<int>(values.size()) - 1;
}

const std::vector<Instruction>& Program::phase(Phase phase) const {
  switch (phase) {
    case Phase::kForward:
      return forward;
    case Phase::kBackward:
      return backward;
    case Phase::kBackwardWeight:
      return backward_weight;
  }
  return forward;
}

int Program::find(std::string_view value_name) const {
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (values[index].name == value_name) return static_cast<int>(index);
  }
  return -1;
}

std::vector<int> Program::values_of(ValueRole role) const {
  std::vector<int> found;
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (values[index].role == role) found.push_back(static_cast<int>(index));
  }
  return found;
}

std::string Program::gradient_name(int value) const { return values.at(value).name + ".grad"; }

int Program::add_copy(int parameter, DType dtype) {
  const Value& of = values.at(parameter);
  values.push_back({.name = text(of.name, ".", name_of(dtype)),
                    .spec = {dtype, of.spec.shape},
                    .role = ValueRole::kCopy,
                    .copy_of = parameter});
  return static_cast<int>(values.size()) - 1;
}

int Program::gradient_of(int parameter) const { return find(gradient_name(parameter)); }

std::vector<int> append(Program& program, std::vector<Instruction>& list, Op op,
                        const std::vector<int>& inputs, int layer) {
  const OpFacts facts = facts_of(op);
  require(inputs.size() == facts.inputs.size(), {.what = op.name + ": inputs",
                                                 .found = text(inputs.size()),
                                                 .expected = text(facts.inputs.size()),
                                                 .fix = "pass the inputs that op.h lists"});
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const TensorSpec& given = program.values.at(inputs[index]).spec;
    const bool same = given.dtype == facts.inputs[index].dtype &&
                      given.elements() == facts.inputs[index].elements();
    if (same) continue;
    throw Error(ErrorCode::kInvalidArgument, {.what = text(op.name, ": input ", index),
                                              .found = shape_text(given),
                                              .expected = shape_text(facts.inputs[index]),
                                              .fix = "correct the program's builder"});
  }
  std::vector<int> outputs;
  for (const OutputFacts& output : facts.outputs) {
    if (output.updates >= 0) {
      outputs.push_back(inputs[output.updates]);
      continue;
    }
    const std::string name = outputs.empty() ? op.name : text(op.name, ".", outputs.size());
    outputs.push_back(program.add_value(name, output.spec));
  }
  list.push_back({.op = std::move(op), .inputs = inputs, .outputs = outputs, .layer = layer});
  return outputs;
}

std::string to_text(const Program& program) {
  std::string out = text("program ", program.name, "\n");
  for (int phase = 0; phase < kPhases; ++phase) {
    out += text(name_of(static_cast<Phase>(phase)), ":\n");
    for (const Instruction& instruction : program.phase(static_cast<Phase>(phase))) {
      out += line_of(program, instruction);
    }
  }
  return out;
}

}  // namespace hethub
