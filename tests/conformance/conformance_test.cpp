// What makes kinds interchangeable: every op, on every backend, at odd shapes, against fp64.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>

#include <gtest/gtest.h>

#include "cases.h"
#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "operands.h"
#include "reference.h"
#include "stage.h"
#include "tests/accel/multiplies.h"

namespace hethub::conformance {
namespace {

// A backend joins with one line here: its name, and how far its results may lie from fp64, as a
// part of an element's size plus its tensor's root mean square. The hardest in fp32 are gradients
// of attention over 128 products a score: a score of size 5 is off by some 1e-6, and so is its
// exponential, relatively. 4e-6 leaves them a factor of two.
struct BackendRow {
  const char* name = "";
  double f32_tolerance = 0;
  double bf16_tolerance = 0;       // of ops on bf16; 0: it must refuse them
  double bf16_sums_tolerance = 0;  // of what they leave in f32: sums and gradients of weights
};

constexpr double kBf16Rounding = 0x1.01p-8;  // that of one rounding to bf16

constexpr BackendRow kBackends[] = {
    {"cpu", 4e-6, kBf16Rounding, 4e-6},
    {"opencl", 4e-6},
    {"served-cpu", 4e-6, kBf16Rounding, 4e-6},  // cpu behind the edge of a plug-in
    {"torch", 4e-6, 2 * kBf16Rounding, kBf16Rounding},
    {"gpu-host", 4e-6},  // the kernels of cuda and hip as loops on the CPU
    {"cuda", 4e-6},
    {"hip", 4e-6},
    {"emulated:T4:scale=0.001", 4e-6, kBf16Rounding, 4e-6},
};

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
    if (GetParam().bf16_tolerance == 0) return all;
    if (!multiplies(*backend_, DType::kBf16)) {
      std::cout << GetParam().name << ": bf16 was not tested: no products of it on this machine\n";
      return all;
    }
    for (Op& op : cases_in(DType::kBf16)) {
      all.push_back(std::move(op));
    }
    return all;
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
  if (op.dtype == DType::kF32) return row.f32_tolerance;
  return output.dtype == DType::kF32 ? row.bf16_sums_tolerance : row.bf16_tolerance;
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

TEST_P(Conformance, what_a_backend_lacks_is_refused_by_name) {
  for (const OpBody& body :
       std::vector<OpBody>{GroupStart{.in_count = 4, .out_count = 4}, GroupWait{4}}) {
    try {
      (void)backend_->prepare({"layer3.sum", DType::kF32, body});
      ADD_FAILURE() << "a group op was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("layer3.sum"), std::string::npos) << error.what();
    }
  }
}

TEST_P(Conformance, bf16_is_refused_by_name_where_it_is_not_computed) {
  if (GetParam().bf16_tolerance > 0) GTEST_SKIP() << "it computes in bf16, or says what it lacks";
  for (const Op& op : cases_in(DType::kBf16)) {
    if (std::holds_alternative<Accumulate>(op.body)) continue;
    try {
      (void)backend_->prepare(op);
      ADD_FAILURE() << title_of(op) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos) << error.what();
    }
  }
}

TEST_P(Conformance, too_much_memory_is_refused) {
  try {
    (void)backend_->allocate(std::int64_t{1} << 55);
    ADD_FAILURE() << "32 PiB were granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::ValuesIn(kBackends), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return std::isalnum(letter) == 0; }, '_');
  return name;
});

TEST(Coverage, every_backend_of_this_build_is_in_the_table) {
  for (const std::string& name : known_backends()) {
    if (name.starts_with("test-")) continue;  // plug-ins that must fail to load
    EXPECT_TRUE(std::any_of(std::begin(kBackends), std::end(kBackends),
                            [&](const BackendRow& row) { return row.name == name; }))
        << "add a line for " << name << " to kBackends";
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
