#include "hethub/profile/metered_backend.h"

#include <array>

#include <gtest/gtest.h>

#include "hethub/accel/registry.h"
#include "hethub/base/deadline.h"

namespace hethub {
namespace {

TEST(MeteredBackend, ops_run_as_ever_and_are_counted_only_while_asked_to) {
  const auto inner = open_backend("cpu", {});
  MeteredBackend backend(*inner);
  const auto memory = backend.allocate(1024);
  const auto queue = backend.make_queue();
  const auto fill = backend.prepare({"fill", DType::kF32, Fill{4, 3.0}});
  const auto same = backend.prepare({"same", DType::kF32, Fill{4, 3.0}});
  const auto other = backend.prepare({"other", DType::kF32, Fill{4, 5.0}});
  const std::array<View, 1> x = {View{memory.get(), 0, 16}};
  queue->run(*fill, {}, x, {});
  EXPECT_EQ(backend.ops().at(0).runs, 0);
  backend.meter(true);
  queue->run(*fill, {}, x, {});
  queue->run(*same, {}, x, {});
  std::array<float, 4> values = {};
  queue->download(x[0], std::as_writable_bytes(std::span(values)));
  queue->synchronize(after_seconds(60));
  EXPECT_EQ(values[3], 3.0F);
  const std::vector<MeteredOp> ops = backend.ops();
  ASSERT_EQ(ops.size(), 2U) << "ops of the same work are one";
  EXPECT_EQ(ops[0].runs, 2);
  EXPECT_EQ(ops[1].runs, 0);
  EXPECT_GT(ops[0].least, 0);
  EXPECT_LE(2 * ops[0].least, ops[0].seconds);
  backend.clear();
  EXPECT_EQ(backend.ops().at(0).runs, 0);
  backend.meter(false);
  queue->run(*other, {}, x, {});
  EXPECT_EQ(backend.ops().at(1).runs, 0);
}

}  // namespace
}  // namespace hethub
