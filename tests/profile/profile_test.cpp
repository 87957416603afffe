#include "hethub/profile/profile.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "hethub/cost/costs_file.h"
#include "hethub/profile/link_timer.h"
#include "hethub/profile/program_costs.h"

namespace hethub {
namespace {

ProfileOptions small_profile() {
  return {.model = parse_model(R"({"model_type":"llama","vocab_size":67,"hidden_size":32,
            "intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,
            "num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5})",
                               "config.json"),
          .covered = {.sequence_length = 16, .micro_batch_sizes = {1, 2}},
          .timing = {.seconds_per_op = 0.005,
                     .rounds = 1,
                     .program_bytes = 4 << 20,
                     .optimizer_bytes = 4 << 20}};
}

TEST(Profile, a_kinds_costs_are_complete_and_survive_the_file) {
  const auto backend = open_backend("cpu", {});
  const ProfileOptions options = small_profile();
  const KindProfile profile = profile_kind(*backend, options);
  EXPECT_TRUE(profile.problems.empty());
  EXPECT_GT(profile.costs.launch_seconds, 0);
  EXPECT_GT(profile.costs.gemm_flops_per_s.at("f32"), 1e8);
  EXPECT_GT(profile.memory_bytes_per_s, 1e6);
  EXPECT_GT(profile.program_seconds, 0);
  EXPECT_EQ(profile.costs.download.bytes_per_s, 0) << "the host reads this memory itself";

  const auto file = std::filesystem::temp_directory_path() / text("costs-", ::getpid(), ".json");
  write_costs({.kinds = {{"cpu", profile.costs}}}, file);
  const Costs read = read_costs(file);
  std::filesystem::remove(file);
  ASSERT_EQ(read.kinds.at("cpu").ops.size(), profile.costs.ops.size());
  for (std::size_t row = 0; row < profile.costs.ops.size(); ++row) {
    EXPECT_EQ(read.kinds.at("cpu").ops[row].sizes, profile.costs.ops[row].sizes);
    EXPECT_DOUBLE_EQ(read.kinds.at("cpu").ops[row].seconds, profile.costs.ops[row].seconds);
    EXPECT_GT(profile.costs.ops[row].runs, 0);
  }
}

TEST(Profile, an_op_of_ten_times_the_work_takes_longer) {
  const auto backend = open_backend("cpu", {});
  const auto times = time_ops(*backend,
                              {{"small", DType::kF32, Linear{32, 64, 64, false}},
                               {"large", DType::kF32, Linear{320, 640, 640, false}}},
                              {.seconds_per_op = 0.05});
  EXPECT_GT(times[1].seconds, 5 * times[0].seconds);
}

TEST(Profile, the_ops_of_a_pass_add_up_to_what_it_took) {
  const auto backend = open_backend("cpu", {});
  const ProfileOptions options = small_profile();
  std::vector<OpTime> times;
  for (const Op& op : distinct_ops(covering_plans(options.model, options.covered), options.model)) {
    times.push_back({.op = op, .seconds = 1});  // far too long: scaled by what is measured
  }
  const auto passes = calibrate(*backend, options, 0, times);
  ASSERT_EQ(passes.size(), 4U) << "forward and backward of two micro-batch sizes";
  for (const ProgramTime& pass : passes) {
    EXPECT_GT(pass.ops_seconds, 10) << "one second for each of its ops";
    EXPECT_LT(pass.seconds, 1);
  }
  const auto scaled = calibrate(*backend, options, 0, times);
  for (const ProgramTime& pass : scaled) {
    EXPECT_LT(pass.ops_seconds, 1) << "micro-batches of " << pass.micro_batch_size;
  }
}

// A device that refuses one op, as one whose driver lacks something does.
class PickyBackend : public Backend {
 public:
  explicit PickyBackend(std::unique_ptr<Backend> real) : real_(std::move(real)) {}
  DeviceInfo info() const override { return real_->info(); }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override { return real_->allocate(bytes); }
  std::unique_ptr<Queue> make_queue() override { return real_->make_queue(); }
  std::unique_ptr<Event> make_event() override { return real_->make_event(); }
  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    if (std::holds_alternative<SiluMul>(op.body)) {
      throw Error(ErrorCode::kUnsupported, {.what = "silu_mul on picky",
                                            .found = "none",
                                            .expected = "a kernel",
                                            .fix = "use another device"});
    }
    return real_->prepare(op);
  }

 private:
  std::unique_ptr<Backend> real_;
};

TEST(Profile, an_op_that_the_device_lacks_is_told_and_the_others_are_timed) {
  PickyBackend backend(open_backend("cpu", {}));
  const KindProfile profile = profile_kind(backend, small_profile());
  ASSERT_EQ(profile.problems.size(), 2U) << "one for each micro-batch size";
  EXPECT_NE(profile.problems[0].find("silu_mul on picky"), std::string::npos);
  EXPECT_GT(profile.costs.ops.size(), 20U);
}

TEST(Profile, memory_that_the_device_lacks_is_told) {
  const auto backend = open_backend("cpu", {});
  const Op huge{"huge", DType::kF32, Fill{.count = std::int64_t{1} << 50}};
  const auto times = time_ops(*backend, {huge}, {.seconds_per_op = 0.001});
  EXPECT_FALSE(times[0].problem.empty());
}

TEST(Profile, indices_stay_inside_the_ops_tables) {
  for (const std::int32_t id : index_values({"", DType::kF32, Embedding{100, 7, 4}}, 100)) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
  }
  EXPECT_EQ(index_values({"", DType::kF32, Rope{8, 1, 4, 5, false}}, 8),
            (std::vector<std::int32_t>{0, 1, 2, 3, 4, 0, 1, 2}));
}

TEST(Profile, the_fit_finds_the_link_that_made_the_points) {
  std::vector<LinkPoint> points;
  for (const double size : message_sizes()) {
    points.push_back({size, 20e-6 + size / 3e9});
  }
  const LinkRate rate = fit_link(points);
  EXPECT_NEAR(rate.latency_s, 20e-6, 1e-9);
  EXPECT_NEAR(rate.bytes_per_s, 3e9, 1e4);
}

TEST(Profile, a_median_is_the_middle) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace hethub
