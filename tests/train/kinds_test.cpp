// Ranks of different kinds train one model in bf16.

#include <gtest/gtest.h>

#include "hethub/base/text.h"
#include "tests/accel/multiplies.h"
#include "tests/train/thread_ranks.h"

namespace hethub {
namespace {

TrainOptions options_for(Plan plan, const std::string& dtype) {
  constexpr std::int64_t kSteps = 40;
  plan.dtype = dtype;
  return {.plan = std::move(plan),
          .model = small_model(false),
          .optimizer = {.learning_rate = 1e-3, .schedule = "constant", .total_steps = kSteps},
          .start = {.seed = 5},
          .steps = kSteps,
          .timeout_s = 120};
}

bool has_bf16(const std::string& backend) {
  return multiplies(*open_backend(backend, {}), DType::kBf16);
}

struct Mix {
  std::vector<Pipeline> pipelines = {};
  std::vector<std::string> backends = {};
};

std::vector<Mix> mixes() {
  std::vector<Mix> all = {{{replica(0, 4, 1)}, {"opencl"}}};
  if (!has_bf16("cpu")) return all;
  all.push_back({{two_stages(0, 1, 4, 2)}, {"cpu", "opencl"}});
  all.push_back({{two_stages(0, 2, 2, 1)}, {"opencl", "cpu"}});
  all.push_back({{replica(0, 1, 3), replica(1, 1, 1)}, {"opencl", "cpu"}});
  all.push_back({{two_stages(0, 1, 2, 3), replica(2, 2, 1)}, {"opencl", "cpu", "opencl"}});
  Pipeline wide = two_stages(0, 1, 4, 2);
  wide.stages[0].ranks = {0, 2};
  wide.stages[0].tensor_parallel = 2;
  all.push_back({{wide}, {"opencl", "cpu", "opencl"}});
  return all;
}

// As Training.bf16_learns_as_f32_does_in_every_layout: f32 on one cpu is what they are held to.
TEST(Kinds, bf16_on_opencl_alone_and_beside_cpu_learns_as_f32_does) {
  if (!is_backend("opencl")) GTEST_SKIP() << "no OpenCL in this build";
  const Cycle source;
  const auto expected =
      train_in_threads(options_for(cpu_plan(32, {replica(0, 4, 1)}), "f32"), source).front().steps;
  ASSERT_LT(expected.back().loss, 0.8 * expected.front().loss);
  for (const Mix& mix : mixes()) {
    const auto ranks =
        train_in_threads(options_for(cpu_plan(32, mix.pipelines), "bf16"), source, mix.backends);
    for (const ThreadRank& rank : ranks) {
      for (std::size_t step = 0; step < expected.size(); ++step) {
        SCOPED_TRACE(text(ranks.size(), " ranks, step ", step));
        ASSERT_NEAR(rank.steps[step].loss, expected[step].loss, 0.01 * expected[step].loss);
      }
    }
  }
}

}  // namespace
}  // namespace hethub
