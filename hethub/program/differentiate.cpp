#include "hethub/program/differentiate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/program/gradient_rules.h"

namespace hethub {
namespace {

class Differentiator {
 public:
  Differentiator(Program& program, const DifferentiateOptions& options)
      : program_(program), options_(options) {}

  void run() {
    if (program_.sent_activation >= 0) {
      program_.received_gradient =
          program_.add_value(program_.gradient_name(program_.sent_activation),
                             program_.values[program_.sent_activation].spec, ValueRole::kReceived);
      gradients_[program_.sent_activation] = program_.received_gradient;
    }
    const std::vector<Instruction> forward = program_.forward;
    for (std::size_t index = forward.size(); index-- > 0;) {
      const Instruction& instruction = forward[index];
      const bool enters_layer =
          index + 1 == forward.size() || forward[index + 1].layer != instruction.layer;
      if (enters_layer && is_recomputed(instruction.layer)) recompute(instruction.layer, forward);
      differentiate_one(instruction);
    }
    const auto input = gradients_.find(program_.received_activation);
    if (input != gradients_.end()) program_.sent_gradient = input->second;
  }

 private:
  bool is_loss(const Instruction& instruction) const {
    return program_.losses >= 0 && instruction.outputs[0] == program_.losses;
  }

  bool is_recomputed(int layer) const {
    return options_.recompute_layers.contains(layer) || options_.selective_layers.contains(layer);
  }

  bool is_kept(const Instruction& instruction) const {
    const OpBody& body = instruction.op.body;
    return options_.selective_layers.contains(instruction.layer) &&
           (std::holds_alternative<Linear>(body) || std::holds_alternative<LinearGradInput>(body) ||
            std::holds_alternative<ExpertLinear>(body) ||
            std::holds_alternative<GroupStart>(body) || std::holds_alternative<GroupWait>(body));
  }

  bool wanted(int value) const {
    const ValueRole role = program_.values[value].role;
    return role != ValueRole::kInput && role != ValueRole::kConstant;
  }

  void differentiate_one(const Instruction& forward) {
    const auto found = gradients_.find(forward.outputs[0]);
    if (found == gradients_.end() && !is_loss(forward)) return;
    const int gradient = found == gradients_.end() ? -1 : found->second;
    const int layer = forward.layer;
    const GradientWriter writer{
        .emit =
            [&](Op op, const std::vector<int>& inputs) {
              return append(program_, program_.backward, std::move(op), inputs, layer);
            },
        .emit_weight =
            [&](Op op, std::vector<int> inputs, int parameter) {
              inputs.push_back(parameter_gradient(parameter));
              if (forward.parameter_gradient_elsewhere) return;
              auto& list = options_.split ? program_.backward_weight : program_.backward;
              append(program_, list, std::move(op), inputs, layer);
            },
        .add = [&](int value, int part) { add(value, summed(forward, part), layer); },
        .wanted = [&](int value) { return wanted(value); }};
    write_gradient(renamed(forward), gradient, writer);
  }

  // A part of a gradient as the sum over the group that its parts are spread over.
  int summed(const Instruction& forward, int part) {
    if (forward.gradient_group < 0) return part;
    const DType dtype = program_.values[part].spec.dtype;
    const std::int64_t count = program_.values[part].spec.elements();
    const GroupStart start{.kind = GroupKind::kAllReduce,
                           .group = forward.gradient_group,
                           .in_count = count,
                           .out_count = count,
                           .ranks = forward.gradient_ranks};
    const std::string name = forward.op.name + ".grad_input_sum";
    const int sum =
        append(program_, program_.backward, {name, dtype, start}, {part}, forward.layer)[0];
    append(program_, program_.backward, {name + ".wait", dtype, GroupWait{count}}, {sum},
           forward.layer);
    return sum;
  }

  // Gradients are keyed by the forward pass's own values: a value computed again stands for one.
  void add(int value, int part, int layer) {
    const auto original = original_of_.find(value);
    const int key = original == original_of_.end() ? value : original->second;
    const auto [found, is_first] = gradients_.try_emplace(key, part);
    if (is_first) return;
    const TensorSpec& spec = program_.values[key].spec;
    const Op sum{text(program_.gradient_name(key), "_sum", sums_++), spec.dtype,
                 Add{spec.elements()}};
    found->second = append(program_, program_.backward, sum, {found->second, part}, layer)[0];
  }

  // Of a copy, the gradient is the parameter's.
  int parameter_gradient(int read) {
    const int copied = program_.values[read].copy_of;
    const int parameter = copied >= 0 ? copied : read;
    const auto found = gradients_.find(parameter);
    if (found != gradients_.end()) return found->second;
    const TensorSpec spec{DType::kF32, program_.values[parameter].spec.shape};
    const int gradient =
        program_.add_value(program_.gradient_name(parameter), spec, ValueRole::kGradient);
    gradients_[parameter] = gradient;
    return gradient;
  }

  // The instruction as it reads with the values that were computed again.
  Instruction renamed(Instruction instruction) const {
    for (auto* list : {&instruction.inputs, &instruction.outputs}) {
      for (int& value : *list) {
        const auto found = again_.find(value);
        if (found != again_.end()) value = found->second;
      }
    }
    return instruction;
  }

  // Appends to the backward pass those forward instructions of `layer` whose results its gradient
  // rules read.
  void recompute(int layer, const std::vector<Instruction>& forward) {
    std::vector<const Instruction*> mine;
    std::set<int> needed;
    for (const Instruction& instruction : forward) {
      if (instruction.layer != layer) continue;
      mine.push_back(&instruction);
      for (const int value : values_kept_for_gradient(instruction)) {
        needed.insert(value);
      }
    }
    std::set<const Instruction*> again;
    for (std::size_t index = mine.size(); index-- > 0;) {
      const auto& outputs = mine[index]->outputs;
      if (is_kept(*mine[index])) continue;
      if (std::none_of(outputs.begin(), outputs.end(), [&](int v) { return needed.contains(v); })) {
        continue;
      }
      again.insert(mine[index]);
      needed.insert(mine[index]->inputs.begin(), mine[index]->inputs.end());
    }
    for (const Instruction* instruction : mine) {
      if (again.contains(instruction)) compute_again(*instruction);
    }
  }

  void compute_again(const Instruction& instruction) {
    Op op = instruction.op;
    op.name += ".again";
    const std::vector<int> outputs = append(program_, program_.backward, std::move(op),
                                            renamed(instruction).inputs, instruction.layer);
    for (std::size_t index = 0; index < outputs.size(); ++index) {
      again_[instruction.outputs[index]] = outputs[index];
      original_of_[outputs[index]] = instruction.outputs[index];
    }
  }

  Program& program_;
  const DifferentiateOptions& options_;
  std::map<int, int> gradients_;    // of a forward value or parameter
  std::map<int, int> again_;        // forward value -> the same, computed again
  std::map<int, int> original_of_;  // the other way round
  int sums_ = 0;
};

}  // namespace

void differentiate(Program& program, const DifferentiateOptions& options) {
  require(program.backward.empty(), {.what = program.name + ": differentiate",
                                     .found = "a program with a backward pass",
                                     .expected = "a forward pass only",
                                     .fix = "differentiate a program once"});
  Differentiator(program, options).run();
}

}  // namespace hethub
