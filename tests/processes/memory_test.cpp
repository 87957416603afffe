// A rank's process takes what the plan says and a fixed cost, from the first step to the last.

#include <gtest/gtest.h>

#include "tests/processes/program.h"

namespace hethub {
namespace {

// What a process takes beside its arena: the program and its libraries, and for OpenCL the driver
// with its compiled kernels. Measured here: 20 MiB and 92 MiB.
struct FixedCost {
  const char* kind;
  std::int64_t mebibytes;
};

class Memory : public testing::TestWithParam<FixedCost> {};

TEST_P(Memory, is_the_arena_and_a_fixed_cost_and_stays_flat) {
  const auto& [kind, fixed] = GetParam();
  const Workspace space(std::string("memory-") + kind);
  space.make_data(64);
  Plan plan{.model = "config.json", .sequence_length = 32, .global_batch = 64};
  plan.pipelines = {replica_of(kind, 0, 32, 2)};
  space.write("plan.json", to_json(plan).dump());
  const Outcome outcome = space.hethub(
      "train --plan plan.json --data text --held-out-fraction 0 --steps 120 "
      "--log-json log.jsonl");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto steps = steps_of(space.path("log.jsonl"));
  const auto peak = [&](std::int64_t step) {
    return steps.at(step)["peak_resident_bytes"].get<std::int64_t>();
  };
  const std::int64_t arena = steps.at(1)["arena_bytes"];
  EXPECT_LE(peak(120), arena + (fixed << 20));
  EXPECT_GE(peak(120), arena);
  EXPECT_LE(static_cast<double>(peak(120)), 1.01 * static_cast<double>(peak(20)));
}

INSTANTIATE_TEST_SUITE_P(, Memory, testing::Values(FixedCost{"cpu", 32}, FixedCost{"opencl", 128}),
                         [](const auto& info) { return std::string(info.param.kind); });

}  // namespace
}  // namespace hethub
