#include "hethub/program/program.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/program/differentiate.h"
#include "tests/program/small_program.h"

namespace hethub {
namespace {

int count(const std::vector<Instruction>& list, std::string_view kind) {
  return static_cast<int>(std::count_if(
      list.begin(), list.end(), [&](const Instruction& i) { return facts_of(i.op).kind == kind; }));
}

TEST(Program, an_input_of_the_wrong_shape_is_refused) {
  Program program;
  const int x = program.add_value("x", {DType::kF32, {2, 3}}, ValueRole::kInput);
  EXPECT_THROW(append(program, program.forward, {"y", DType::kF32, Add{7}}, {x, x}, 0), Error);
}

TEST(Differentiate, each_parameter_gets_one_gradient_of_its_shape) {
  Program program = small_program(3, 0);
  differentiate(program);
  for (const int parameter : program.values_of(ValueRole::kParameter)) {
    const int gradient = program.gradient_of(parameter);
    ASSERT_GE(gradient, 0) << program.values[parameter].name;
    EXPECT_EQ(program.values[gradient].role, ValueRole::kGradient);
    EXPECT_EQ(program.values[gradient].spec, program.values[parameter].spec);
  }
  EXPECT_EQ(program.values_of(ValueRole::kGradient).size(),
            program.values_of(ValueRole::kParameter).size());
}

TEST(Differentiate, a_weight_used_twice_adds_both_uses_to_one_gradient) {
  Program program = small_program(2, 0);
  differentiate(program);
  const int tied = program.gradient_of(program.find("w0"));
  const auto uses =
      std::count_if(program.backward.begin(), program.backward.end(),
                    [&](const Instruction& instruction) { return instruction.outputs[0] == tied; });
  EXPECT_EQ(uses, 2);  // small_program multiplies by w0 first and last
}

TEST(Differentiate, a_split_backward_has_all_weight_gradients_in_the_second_part) {
  Program whole = small_program(3, 0);
  Program split = small_program(3, 0);
  differentiate(whole);
  differentiate(split, {.split = true});
  EXPECT_EQ(count(split.backward, "linear_grad_weight"), 0);
  EXPECT_EQ(count(split.backward_weight, "linear_grad_weight"),
            count(whole.backward, "linear_grad_weight"));
  EXPECT_EQ(split.backward.size() + split.backward_weight.size(), whole.backward.size());
}

TEST(Differentiate, a_recomputed_layer_is_computed_again_and_keeps_only_its_input) {
  Program program = small_program(3, 0);
  const int kept_without = program.find("layer1.act");
  differentiate(program, {.recompute_layers = {1}});
  for (const Instruction& instruction : program.backward) {
    EXPECT_EQ(std::count(instruction.inputs.begin(), instruction.inputs.end(), kept_without), 0)
        << instruction.op.name;
  }
  EXPECT_GE(program.find("layer1.gate.again"), 0);
  EXPECT_LT(program.find("layer1.down.again"), 0);  // no rule reads a layer's last product
}

TEST(Differentiate, a_slice_sends_the_gradient_of_what_it_received) {
  Program program = small_slice(2);
  differentiate(program);
  ASSERT_GE(program.received_gradient, 0);
  ASSERT_GE(program.sent_gradient, 0);
  EXPECT_EQ(program.values[program.sent_gradient].spec.bytes(),
            program.values[program.received_activation].spec.bytes());
}

}  // namespace
}  // namespace hethub
