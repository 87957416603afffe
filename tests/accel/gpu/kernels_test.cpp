// Of a vendor's compiler and runtime: built for each that is here, run without a device.

#include <gtest/gtest.h>

#include "hethub/accel/gpu/ops.h"
#include "hethub/accel/gpu/runtime.h"
#include "tests/conformance/prepare.h"

namespace hethub::gpu {
namespace {

TEST(GpuKernels, every_op_of_the_suite_has_a_kernel_of_this_vendor) {
  conformance::expect_kernels_of(conformance::row_named(kVendor),
                                 [](const Op& op) { return prepare_gpu_op(op); });
}

TEST(GpuKernels, a_machine_without_a_device_is_told_why) {
  std::string problem;
  if (count_devices(problem) > 0) GTEST_SKIP() << "there is a device";
  EXPECT_FALSE(problem.empty());
}

}  // namespace
}  // namespace hethub::gpu
