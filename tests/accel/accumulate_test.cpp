#include <array>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "hethub/accel/registry.h"
#include "hethub/base/error.h"
#include "tests/accel/numbers.h"

namespace hethub {
namespace {

constexpr double kSeconds = 60;

std::unique_ptr<Backend> opened(const std::string& name) {
  for (const FoundDevice& found : find_devices()) {
    if (found.backend == name && found.problem.empty()) return open_backend(name, {});
  }
  return nullptr;
}

struct Numbers {
  std::unique_ptr<Buffer> buffer = {};
  View view = {};
};

class EveryBackend : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = opened(GetParam());
    if (backend_ == nullptr) GTEST_SKIP() << "no " << GetParam() << " device here";
    queue_ = backend_->make_queue();
  }

  // Bytes in device memory that begin one element after the buffer does.
  Numbers on_device(const std::vector<std::byte>& bytes, DType dtype) {
    Numbers numbers;
    numbers.buffer = backend_->allocate(std::ssize(bytes) + size_of(dtype));
    numbers.view = {numbers.buffer.get(), size_of(dtype), std::ssize(bytes)};
    queue_->upload(bytes, numbers.view);
    queue_->synchronize(after_seconds(kSeconds));
    return numbers;
  }

  std::vector<std::byte> accumulated(DType dtype, const Accumulate& op,
                                     const std::vector<std::byte>& total,
                                     const std::vector<std::byte>& x) {
    const Numbers to = on_device(total, dtype);
    const Numbers from = on_device(x, dtype);
    const auto prepared = backend_->prepare({"accumulate", dtype, op});
    queue_->run(*prepared, std::array{to.view, from.view}, std::array{to.view}, {});
    std::vector<std::byte> result(total.size());
    queue_->download(to.view, result);
    queue_->synchronize(after_seconds(kSeconds));
    return result;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Queue> queue_;
};

TEST_P(EveryBackend, adds_every_dtype_by_every_reduction_as_a_serial_loop_does) {
  for (std::size_t type = 0; type < kDTypes.size(); ++type) {
    for (std::size_t how = 0; how < kReductionNames.size(); ++how) {
      const auto dtype = static_cast<DType>(type);
      const auto reduction = static_cast<Reduction>(how);
      // Every second case is long enough to be shared out; both have rows that do not touch.
      const std::int64_t count = (type + how) % 2 == 0 ? 37 : 20'003;
      const std::int64_t terms = 1 + static_cast<std::int64_t>(type + how) % 4;
      const std::int64_t stride = count + 3;
      const auto total = values_of(dtype, reduction, 0, count);
      std::vector<std::byte> x((terms - 1) * stride * size_of(dtype));
      for (std::int64_t term = 0; term < terms; ++term) {
        const auto row = values_of(dtype, reduction, static_cast<int>(term) + 1, count);
        x.resize(term * stride * size_of(dtype));
        x.insert(x.end(), row.begin(), row.end());
      }
      const Accumulate op{.count = count,
                          .terms = terms,
                          .stride = stride,
                          .reduction = reduction,
                          .divisor = reduction == Reduction::kAvg ? terms + 1 : 1};
      const auto found = accumulated(dtype, op, total, x);
      for (std::int64_t i = 0; i < count; ++i) {
        std::vector<double> values = {taken(dtype, total.data() + i * size_of(dtype))};
        double largest = std::fabs(values[0]);
        for (std::int64_t term = 0; term < terms; ++term) {
          values.push_back(taken(dtype, x.data() + (term * stride + i) * size_of(dtype)));
          largest += std::fabs(values.back());
        }
        const double expected = wrapped(dtype, reduced(reduction, values));
        const double near = tolerance(dtype, values.size()) * std::max(largest, expected);
        ASSERT_NEAR(taken(dtype, found.data() + i * size_of(dtype)), expected, near)
            << name_of(dtype) << ' ' << name_of(reduction) << " element " << i;
      }
    }
  }
}

// 1 + 2^-9 + 2^-9 + ...: bf16 keeps 7 bits of fraction, so that each alone would be lost.
TEST_P(EveryBackend, adds_narrow_floats_in_f32_and_rounds_once) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const double last_bit = dtype == DType::kBf16 ? 1.0 / 128 : 1.0 / 1024;
    std::vector<std::byte> total(2);
    put(dtype, 1.0, total.data());
    std::vector<std::byte> x(8);
    for (int term = 0; term < 4; ++term)
      put(dtype, last_bit / 4, x.data() + 2 * term);
    const auto found = accumulated(dtype, {.count = 1, .terms = 4, .stride = 1}, total, x);
    EXPECT_EQ(taken(dtype, found.data()), 1 + last_bit) << name_of(dtype);
  }
}

// Every f16 and bf16 plus zero is itself: so each is read and written by its definition.
TEST_P(EveryBackend, keeps_every_narrow_float) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    std::vector<std::byte> all(2 * 65536);
    for (int bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      std::memcpy(all.data() + 2 * bits, &stored, 2);
    }
    const std::vector<std::byte> zeros(all.size());
    const auto found = accumulated(dtype, {.count = 65536}, all, zeros);
    for (int bits = 0; bits < 65536; ++bits) {
      const double before = taken(dtype, all.data() + 2 * bits);
      const double after = taken(dtype, found.data() + 2 * bits);
      ASSERT_TRUE(before == after || (std::isnan(before) && std::isnan(after)))
          << name_of(dtype) << ' ' << bits << ": " << before << " became " << after;
    }
  }
}

TEST_P(EveryBackend, an_empty_accumulation_does_nothing) {
  for (const DType dtype : {DType::kF32, DType::kU8}) {
    EXPECT_TRUE(accumulated(dtype, {.count = 0}, {}, {}).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, EveryBackend, ::testing::Values("cpu", "opencl"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hethub
