// What makes kinds interchangeable: every op, on every backend, at odd shapes, against fp64.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>

#include <gtest/gtest.h>

#include "backends.h"
#include "cases.h"
#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "operands.h"
#include "prepare.h"
#include "reference.h"
#include "stage.h"
#include "tests/accel/multiplies.h"

// What PoCL keeps of a compilation is not ours to free.
extern "C" const char* __lsan_default_suppressions() { return "leak:libpocl"; }

namespace hethub::conformance {
namespace {

// Every test sees the plug-ins that are for tests alone.
class TestPlugins : public testing::Environment {
  void SetUp() override { ::setenv("HETHUB_PLUGIN_PATH", HETHUB_TEST_PLUGINS, 0); }
};
const testing::Environment* const kTestPlugins = testing::AddGlobalTestEnvironment(new TestPlugins);

std::vector<std::string> known_backends() {
  std::vector<std::string> names = backend_names();
  for (const std::string& plugin : plugin_names()) {
    names.push_back(plugin);
  }
  return names;
}

class Conformance : public testing::TestWithParam<BackendRow> {
 protected:
  void SetUp() override {
    if (!is_backend(GetParam().name)) {
      miss("it is not in this build");
      return;
    }
    try {
      backend_ = open_backend(GetParam().name, {.threads = 2});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnavailable) throw;
      miss(error.what());
    }
  }

  // The cases in every dtype the backend computes in on this machine.
  std::vector<Op> cases() const {
    std::vector<Op> all = all_cases();
    for (const Precision& precision : row_here().ops) {
      if (precision.dtype == DType::kF32) continue;
      for (Op& op : cases_in(precision.dtype)) {
        all.push_back(std::move(op));
      }
    }
    return all;
  }

  // Its row, without the dtypes of which this machine has no products.
  BackendRow row_here() const {
    BackendRow row = GetParam();
    std::erase_if(row.ops, [&](const Precision& precision) {
      const bool lacks = !multiplies(*backend_, precision.dtype);
      if (lacks) {
        std::cout << row.name << ": " << name_of(precision.dtype)
                  << " was not tested: no products of it on this machine\n";
      }
      return lacks;
    });
    return row;
  }

  // A device that is not here is skipped where that is allowed.
  static void miss(const std::string& why) {
    if (std::getenv("HETHUB_EVERY_BACKEND") != nullptr) {
      FAIL() << GetParam().name << ": " << why << " (HETHUB_EVERY_BACKEND is set)";
    }
    GTEST_SKIP() << GetParam().name << " was not tested: " << why;
  }

  std::unique_ptr<Backend> backend_ = {};
};

void expect_near(const Values& found, const Values& expected, double size, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(found[i] - expected[i]);
    ASSERT_LE(error, tolerance * (std::fabs(expected[i]) + size))
        << "element " << i << " of " << found.size() << ": found " << found[i] << ", expected "
        << expected[i];
  }
}

double tolerance_of(const Op& op, const TensorSpec& output, const BackendRow& row) {
  const Precision* precision = row.precision_of(op.dtype);
  return output.dtype == op.dtype ? precision->tolerance : precision->f32_tolerance;
}

void expect_outputs(const Op& op, const std::vector<Values>& inputs, const Outcome& outcome,
                    const BackendRow& row) {
  const OpFacts facts = facts_of(op);
  const std::vector<Values> expected = reference(op, inputs);
  for (std::size_t output = 0; output < expected.size(); ++output) {
    SCOPED_TRACE(text("output ", output));
    expect_near(outcome.outputs[output], expected[output],
                size_of_terms(op, inputs, expected[output]),
                tolerance_of(op, facts.outputs[output].spec, row));
  }
  EXPECT_EQ(outcome.stray_bytes, 0) << "written outside the outputs";
}

TEST_P(Conformance, every_op_agrees_with_fp64_and_writes_its_outputs_alone) {
  for (const Op& op : cases()) {
    SCOPED_TRACE(title_of(op));
    const std::vector<Values> inputs = make_inputs(op, 1);
    const Outcome outcome = run_on(*backend_, op, inputs, {});
    expect_outputs(op, inputs, outcome, GetParam());
    if (HasFatalFailure()) return;
  }
}

TEST_P(Conformance, an_output_may_take_over_the_input_its_facts_name) {
  for (const Op& op : cases()) {
    const OpFacts facts = facts_of(op);
    const bool reuses =
        std::any_of(facts.outputs.begin(), facts.outputs.end(),
                    [](const OutputFacts& output) { return output.may_reuse >= 0; });
    if (!reuses) continue;
    SCOPED_TRACE(title_of(op));
    const std::vector<Values> inputs = make_inputs(op, 2);
    const Outcome apart = run_on(*backend_, op, inputs, {});
    const Outcome reused = run_on(*backend_, op, inputs, {.reuse = true});
    ASSERT_EQ(apart.bits, reused.bits);
    ASSERT_EQ(reused.stray_bytes, 0);
  }
}

TEST_P(Conformance, a_second_run_gives_the_same_bits) {
  for (const Op& op : cases()) {
    SCOPED_TRACE(title_of(op));
    const std::vector<Values> inputs = make_inputs(op, 3);
    ASSERT_EQ(run_on(*backend_, op, inputs, {}).bits, run_on(*backend_, op, inputs, {}).bits);
  }
}

TEST_P(Conformance, elementwise_ops_run_at_any_element) {
  for (const std::int64_t shift : {1, 3, 17}) {
    for (const Op& op : cases()) {
      const std::set<std::string_view> elementwise = {"add",         "accumulate", "fill",
                                                      "sum_squares", "convert",    "adamw"};
      if (elementwise.count(facts_of(op).kind) == 0) continue;
      SCOPED_TRACE(text(title_of(op), " shifted by ", shift, " elements"));
      const std::vector<Values> inputs = make_inputs(op, 4);
      const Outcome outcome = run_on(*backend_, op, inputs, {.shift = shift});
      expect_outputs(op, inputs, outcome, GetParam());
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Conformance, a_sum_of_squares_keeps_its_six_digits_over_a_million_elements) {
  const Op op{"norm", DType::kF32, SumSquares{1000003}};
  const std::vector<Values> inputs = make_inputs(op, 5);
  const Values expected = reference(op, inputs)[0];
  expect_near(run_on(*backend_, op, inputs, {}).outputs[0], expected, expected[0], 0.5e-6);
}

TEST_P(Conformance, memory_starts_as_zeros_and_copies_arrive) {
  const auto buffer = backend_->allocate(1000);
  const auto queue = backend_->make_queue();
  std::vector<std::byte> bytes(1000, std::byte{1});
  queue->download({buffer.get(), 0, 1000}, bytes);
  queue->synchronize(after_seconds(60));
  EXPECT_EQ(bytes, std::vector<std::byte>(1000));

  const std::vector<std::byte> sent(100, std::byte{7});
  queue->upload(sent, {buffer.get(), 3, 100});
  queue->copy({buffer.get(), 3, 100}, {buffer.get(), 501, 100});
  queue->download({buffer.get(), 0, 1000}, bytes);
  const auto event = backend_->make_event();
  queue->record(*event);
  event->wait(after_seconds(60));
  EXPECT_TRUE(event->done());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{7}), 200);
  EXPECT_EQ(bytes[3], std::byte{7});
  EXPECT_EQ(bytes[600], std::byte{7});
}

// On a machine without products of a dtype, nothing of it is asked for.
TEST_P(Conformance, every_op_of_its_row_has_a_kernel_and_all_else_is_refused_by_name) {
  const BackendRow here = row_here();
  std::vector<DType> left_out;
  for (const Precision& precision : GetParam().ops) {
    if (here.precision_of(precision.dtype) == nullptr) left_out.push_back(precision.dtype);
  }
  expect_kernels_of(
      GetParam(), [&](const Op& op) { return backend_->prepare(op); }, left_out);
}

TEST_P(Conformance, too_much_memory_is_refused) {
  try {
    (void)backend_->allocate(std::int64_t{1} << 55);
    ADD_FAILURE() << "32 PiB were granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(backend_rows()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char letter) { return std::isalnum(letter) == 0; }, '_');
                           return name;
                         });

TEST(Coverage, every_backend_of_this_build_is_in_the_table) {
  for (const std::string& name : known_backends()) {
    if (name.starts_with("test-")) continue;  // plug-ins that must fail to load
    EXPECT_TRUE(std::ranges::any_of(backend_rows(),
                                    [&](const BackendRow& row) { return row.name == name; }))
        << "add a row for " << name << " to backends.cpp";
  }
}

TEST(Coverage, every_kind_of_op_a_device_runs_has_cases) {
  std::set<std::size_t> kinds;
  for (const Op& op : all_cases()) {
    kinds.insert(op.body.index());
  }
  constexpr std::size_t kGroupOps = 2;  // the communicator's
  EXPECT_EQ(kinds.size(), std::variant_size_v<OpBody> - kGroupOps);
}

}  // namespace
}  // namespace hethub::conformance
