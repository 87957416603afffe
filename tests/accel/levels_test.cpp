// The conformance suite runs the best level of this processor; here are the others.

#include <cmath>

#include <gtest/gtest.h>

#include "../conformance/cases.h"
#include "../conformance/operands.h"
#include "../conformance/stage.h"
#include "hethub/accel/cpu/cpu.h"
#include "hethub/base/error.h"
#include "multiplies.h"

namespace hethub::conformance {
namespace {

constexpr double kTolerance = 4e-6;  // of f32, and
constexpr double kBf16Rounding = 0x1.01p-8;

// As in the conformance suite: part of an element's size and of the tensor's largest.
void expect_near(const Values& found, const Values& expected, double least_size, double tolerance) {
  double size = least_size;
  for (const double value : expected) {
    size = std::max(size, std::fabs(value));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * size) << "element " << i;
  }
}

class Levels : public testing::TestWithParam<const char*> {};

TEST_P(Levels, every_kernel_agrees_with_fp64_and_writes_its_outputs_alone) {
  std::unique_ptr<Backend> backend;
  try {
    backend = open_cpu({}, {.level = GetParam()});
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  std::vector<Op> cases = all_cases();
  if (multiplies(*backend, DType::kBf16)) {
    for (Op& op : cases_in(DType::kBf16)) {
      cases.push_back(std::move(op));
    }
  }
  for (const Op& op : cases) {
    SCOPED_TRACE(title_of(op));
    const std::vector<Values> inputs = make_inputs(op, 1);
    const std::vector<Values> expected = reference(op, inputs);
    const Outcome outcome = run_on(*backend, op, inputs, {});
    EXPECT_EQ(outcome.stray_bytes, 0);
    for (std::size_t output = 0; output < expected.size(); ++output) {
      const bool rounds = facts_of(op).outputs[output].spec.dtype == DType::kBf16;
      expect_near(outcome.outputs[output], expected[output],
                  size_of_terms(op, inputs, expected[output]), rounds ? kBf16Rounding : kTolerance);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Levels, testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

}  // namespace
}  // namespace hethub::conformance
