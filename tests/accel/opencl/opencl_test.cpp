#include "hethub/accel/opencl/opencl.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/text.h"
#include "tests/accel/opencl/run.h"

// Freed memory that the address sanitizer holds back would look like memory that is not freed.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=1"; }

namespace hethub {
namespace {

// The driver starts once a process: here with two threads, so that one thread is half the device.
class TwoThreads final : public testing::Environment {
  void SetUp() override { setenv("POCL_MAX_PTHREAD_COUNT", "2", 0); }
};
const testing::Environment* const kTwoThreads = testing::AddGlobalTestEnvironment(new TwoThreads);

std::unique_ptr<Backend> opened(const OpenclChoices& choices = {}) {
  return open_opencl({.threads = 1}, choices);
}

std::vector<float> noise(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(generator);
  }
  return values;
}

float int_bits(std::int32_t value) {
  float bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Normal noise for floats; small numbers, all valid as ids and positions, for ints.
std::vector<std::vector<float>> inputs_for(const Op& op) {
  std::vector<std::vector<float>> inputs;
  for (const TensorSpec& spec : facts_of(op).inputs) {
    inputs.push_back(noise(spec.elements(), static_cast<unsigned>(inputs.size()) + 1));
    if (spec.dtype != DType::kI32) continue;
    for (std::size_t i = 0; i < inputs.back().size(); ++i) {
      inputs.back()[i] = int_bits(static_cast<std::int32_t>(i % 3));
    }
  }
  return inputs;
}

// All outputs of one run, one after the other.
std::vector<float> run_once(Backend& backend, const Op& op) {
  OpRun run(backend, op, inputs_for(op));
  run.queue_run();
  std::vector<float> all;
  for (std::size_t i = 0; i < facts_of(op).outputs.size(); ++i) {
    const std::vector<float> one = run.output(static_cast<int>(i));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// |a - b| / |b| in the Euclidean norm.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

ErrorCode code_of(const std::function<void()>& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

std::vector<Op> products() {
  std::vector<Op> ops;
  for (const auto& [rows, in, out] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {3, 5, 7}, {13, 513, 33}, {97, 64, 31}, {64, 600, 2100}}) {
    ops.push_back({.name = "y", .body = Linear{rows, in, out, false}});
    ops.push_back({.name = "y + b", .body = Linear{rows, in, out, true}});
    ops.push_back({.name = "dx", .body = LinearGradInput{rows, in, out}});
    ops.push_back({.name = "dw", .body = LinearGradWeight{rows, in, out}});
  }
  return ops;
}

// Rounding of 2100 products of noise in another order: 1e-6 in the norm.
TEST(Opencl, both_matrix_products_give_the_same) {
  const auto ours = opened({.matmul = OpenclMatmul::kKernel});
  const auto library = opened({.matmul = OpenclMatmul::kClblast});
  for (const Op& op : products()) {
    EXPECT_LT(distance(run_once(*ours, op), run_once(*library, op)), 2e-6)
        << op.name << ' ' << sizes_text(op);
  }
}

std::vector<Op> shared_row_ops() {
  const Attention attention{.batch = 2, .seq = 37, .heads = 4, .kv_heads = 2, .head_dim = 24};
  return {{.name = "norm", .body = RmsNorm{.rows = 5, .width = 100}},
          {.name = "norm dx", .body = RmsNormGradInput{.rows = 5, .width = 100}},
          {.name = "norm dgain", .body = RmsNormGradGain{.rows = 133, .width = 65}},
          {.name = "db", .body = BiasGrad{.rows = 133, .width = 65}},
          {.name = "table", .body = EmbeddingGrad{.rows = 19, .vocab = 3, .width = 70}},
          {.name = "rope", .body = Rope{.rows = 9, .heads = 3, .head_dim = 6, .table_rows = 4}},
          {.name = "loss", .body = CrossEntropy{.rows = 5, .vocab = 301}},
          {.name = "dlogits", .body = CrossEntropyGrad{.rows = 5, .vocab = 301}},
          {.name = "squares", .body = SumSquares{.count = 100003}},
          {.name = "gate", .body = SiluMul{.rows = 3, .width = 77}},
          {.name = "attention", .body = attention}};
}

// A result of bf16 is one rounding away from the sums, whose last bits may decide it: 2 · 2^-9.
TEST(Opencl, both_matrix_products_of_narrow_operands_give_the_same) {
  const auto ours = opened({.matmul = OpenclMatmul::kKernel});
  const auto library = opened({.matmul = OpenclMatmul::kClblast});
  for (Op& op : products()) {
    const auto sums = std::holds_alternative<LinearGradWeight>(op.body);
    op.dtype = DType::kBf16;
    EXPECT_LT(distance(run_once(*ours, op), run_once(*library, op)), sums ? 2e-6 : 0x1p-8)
        << op.name << ' ' << sizes_text(op);
  }
}

// A GPU shares each row among work-items; the same source must give the same there.
TEST(Opencl, work_items_that_share_a_row_give_the_same_as_one) {
  const auto one = opened();
  const auto many = opened({.lanes = 8, .vector_width = 4});
  for (Op& op : shared_row_ops()) {
    EXPECT_LT(distance(run_once(*many, op), run_once(*one, op)), 2e-6) << op.name;
    op.dtype = DType::kBf16;
    EXPECT_LT(distance(run_once(*many, op), run_once(*one, op)), 0x1p-8) << op.name << " in bf16";
  }
}

TEST(Opencl, equal_runs_give_equal_bits) {
  const auto backend = opened();
  const auto again = opened();
  for (const Op& op : shared_row_ops()) {
    EXPECT_EQ(run_once(*backend, op), run_once(*again, op)) << op.name;
  }
}

TEST(Opencl, threads_do_not_change_a_bit) {
  const auto one = opened();
  const auto two = open_opencl({.threads = 2});
  for (const Op& op : products()) {
    EXPECT_EQ(run_once(*one, op), run_once(*two, op)) << op.name << ' ' << sizes_text(op);
  }
}

TEST(Opencl, memory_is_allocated_as_zeros_without_an_address) {
  const auto backend = opened();
  const auto buffer = backend->allocate(1001);
  EXPECT_EQ(buffer->bytes(), 1001);
  EXPECT_EQ(buffer->host_data(), nullptr);
  std::vector<std::byte> content(1001, std::byte{7});
  const auto queue = backend->make_queue();
  queue->download({buffer.get(), 0, 1001}, content);
  queue->synchronize(soon());
  EXPECT_EQ(content, std::vector<std::byte>(1001, std::byte{0}));
}

TEST(Opencl, more_memory_than_there_is_is_refused_with_what_is_free) {
  const auto backend = opened();
  const std::int64_t all = backend->info().memory_bytes;
  std::string message;
  EXPECT_EQ(code_of([&] { backend->allocate(all + 1); }, &message), ErrorCode::kOutOfMemory);
  EXPECT_NE(message.find("free"), std::string::npos) << message;
  EXPECT_NE(message.find("in one piece"), std::string::npos) << message;
}

TEST(Opencl, an_op_it_lacks_is_named) {
  const auto backend = opened();
  const Op group{.name = "grads.start", .body = GroupStart{.in_count = 4, .out_count = 4}};
  const Op integers{.name = "layer0.q", .dtype = DType::kI8, .body = Linear{1, 1, 1, false}};
  for (const Op& op : {group, integers}) {
    std::string message;
    EXPECT_EQ(code_of([&] { backend->prepare(op); }, &message), ErrorCode::kUnsupported);
    EXPECT_NE(message.find(op.name), std::string::npos) << message;
  }
}

TEST(Opencl, a_device_that_is_not_there_is_unavailable) {
  EXPECT_EQ(code_of([] { open_opencl({.device = 1000}); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([] { open_opencl({.device = -1}); }), ErrorCode::kUnavailable);
}

TEST(Opencl, memory_of_another_backend_is_refused) {
  const auto backend = opened();
  const auto queue = backend->make_queue();
  const View nothing{.buffer = nullptr, .offset = 0, .bytes = 4};
  EXPECT_EQ(code_of([&] { queue->copy(nothing, nothing); }), ErrorCode::kInvalidArgument);
}

TEST(Opencl, an_id_outside_the_table_gives_no_number) {
  const auto backend = opened();
  const Op op{.name = "embed", .body = Embedding{.rows = 3, .vocab = 2, .width = 5}};
  OpRun run(*backend, op, {{int_bits(1), int_bits(2), int_bits(-1)}, std::vector<float>(10, 1)});
  run.queue_run();
  const std::vector<float> y = run.output(0);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(std::isnan(y[i]), i >= 5) << i;
  }
}

TEST(Opencl, a_wait_ends_at_its_deadline_and_the_queue_goes_on) {
  const auto backend = opened();
  const Op op{.name = "long", .body = Linear{1024, 1024, 1024, false}};
  OpRun run(*backend, op, inputs_for(op));
  const auto event = backend->make_event();
  EXPECT_TRUE(event->done());  // nothing was recorded yet
  for (int i = 0; i < 20; ++i) {
    run.queue_run();
  }
  run.queue().record(*event);
  EXPECT_EQ(code_of([&] { event->wait(std::chrono::steady_clock::now()); }), ErrorCode::kTimeout);
  event->wait(soon());
  EXPECT_TRUE(event->done());
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Events and commands that are not released would cost some 100 bytes a run at the least.
TEST(Opencl, resident_memory_stays_flat_over_ten_thousand_runs) {
  const auto backend = opened();
  const Op op{.name = "small", .body = Linear{3, 5, 7, true}};
  OpRun run(*backend, op, inputs_for(op));
  const auto event = backend->make_event();
  const auto repeat = [&](int times) {
    for (int i = 0; i < times; ++i) {
      run.queue_run();
      run.queue().record(*event);
      if (i % 10 == 9) event->wait(soon());
    }
    run.queue().synchronize(soon());
  };
  repeat(2000);
  const std::int64_t before = resident_bytes();
  repeat(10000);
  EXPECT_LT(resident_bytes() - before, 512 << 10);
}

TEST(Opencl, every_device_has_a_name_and_memory) {
  for (const FoundDevice& found : find_opencl()) {
    EXPECT_EQ(found.backend, "opencl");
    EXPECT_EQ(found.problem, "");
    EXPECT_NE(found.info.name, "");
    EXPECT_NE(found.info.driver, "");
    EXPECT_GT(found.info.memory_bytes, 0);
  }
}

// The loader reads the list of drivers once a process, so this is one of its own.
TEST(OpenclDeathTest, without_a_driver_the_mend_is_named) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
        const std::vector<FoundDevice> found = find_opencl();
        const bool named =
            found.size() == 1 && found[0].problem.find("pocl-opencl-icd") != std::string::npos;
        bool unavailable = false;
        try {
          open_opencl({});
        } catch (const Error& error) {
          unavailable = error.code() == ErrorCode::kUnavailable;
        }
        std::exit(named && unavailable ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hethub
