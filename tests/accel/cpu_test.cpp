#include "hethub/accel/cpu/cpu.h"

#include <cmath>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include "../conformance/cases.h"
#include "../conformance/operands.h"
#include "../conformance/stage.h"
#include "hethub/base/error.h"

namespace hethub {
namespace {

using conformance::Outcome;

ErrorCode code_of(const BackendOptions& options) {
  try {
    (void)open_cpu(options);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(Cpu, options_that_cannot_be_met_are_refused) {
  EXPECT_EQ(code_of({.device = 1}), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of({.threads = 0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.threads = 2, .cores = {0}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.threads = 1, .cores = {-1}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of({.threads = 1, .cores = {1000}}), ErrorCode::kInvalidArgument);
}

TEST(Cpu, computes_on_the_core_it_is_given) {
  std::thread([] {
    const auto backend = open_cpu({.threads = 1, .cores = {0}});
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(0, &set));
  }).join();
}

TEST(Cpu, our_kernels_give_the_same_bits_with_any_number_of_threads) {
  const auto one = open_cpu({.threads = 1});
  const auto three = open_cpu({.threads = 3});
  for (const Op& op : conformance::all_cases()) {
    if (facts_of(op).kind.substr(0, 6) == "linear") continue;  // the library's own affair
    const auto inputs = conformance::make_inputs(op, 6);
    const Outcome alone = conformance::run_on(*one, op, inputs, {});
    const Outcome together = conformance::run_on(*three, op, inputs, {});
    ASSERT_EQ(alone.bits, together.bits) << conformance::title_of(op);
  }
}

TEST(Cpu, two_queues_on_two_threads_do_not_meet) {
  const auto backend = open_cpu({.threads = 1});
  const auto work = [&] {
    const Op op{"sum", DType::kF32, SumSquares{70001}};
    const auto inputs = conformance::make_inputs(op, 8);
    const auto expected = conformance::reference(op, inputs)[0][0];
    for (int round = 0; round < 20; ++round) {
      const Outcome outcome = conformance::run_on(*backend, op, inputs, {});
      EXPECT_NEAR(outcome.outputs[0][0], expected, 1e-6 * expected);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(Cpu, ids_outside_the_table_are_refused_not_followed) {
  const auto backend = open_cpu({});
  const Op op{"embed", DType::kF32, Embedding{2, 11, 4}};
  for (const double id : {-1.0, 11.0}) {
    auto inputs = conformance::make_inputs(op, 9);
    inputs[0][1] = id;
    EXPECT_THROW((void)conformance::run_on(*backend, op, inputs, {}), Error);
  }
}

TEST(Cpu, what_is_not_a_number_stays_visible) {
  const auto backend = open_cpu({});
  for (const OpBody& body : std::vector<OpBody>{
           CrossEntropy{1, 33}, RmsNorm{1, 33, 1e-5}, SiluMul{1, 33}, SumSquares{33},
           Attention{.batch = 1, .seq = 1, .heads = 1, .kv_heads = 1, .head_dim = 33}}) {
    const Op op{"x", DType::kF32, body};
    auto inputs = conformance::make_inputs(op, 10);
    inputs[0][5] = std::nan("");
    const auto output = conformance::run_on(*backend, op, inputs, {}).outputs[0];
    EXPECT_TRUE(std::any_of(output.begin(), output.end(), [](double x) { return std::isnan(x); }))
        << conformance::title_of(op);
  }
}

TEST(Cpu, other_types_are_refused_by_name) {
  try {
    (void)open_cpu({})->prepare({"layer0.up", DType::kF16, Linear{2, 3, 4}});
    FAIL() << "f16 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("f16"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("layer0.up"), std::string::npos);
  }
}

}  // namespace
}  // namespace hethub
