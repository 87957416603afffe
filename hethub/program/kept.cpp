#include "hethub/program/kept.h"

namespace hethub {
namespace {

bool lives_in_step(const Value& value) {
  return value.role == ValueRole::kTemporary || value.role == ValueRole::kReceived;
}

}  // namespace

std::set<int> kept_values(const Program& program) {
  std::set<int> there;
  if (program.received_activation >= 0) there.insert(program.received_activation);
  for (const Instruction& instruction : program.forward) {
    there.insert(instruction.outputs.begin(), instruction.outputs.end());
  }
  std::set<int> kept;
  for (const Instruction& instruction : program.backward) {
    for (const int value : instruction.inputs) {
      if (there.contains(value) && lives_in_step(program.values[value])) kept.insert(value);
    }
  }
  return kept;
}

}  // namespace hethub
