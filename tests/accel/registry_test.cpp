#include "hethub/accel/registry.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

TEST(Registry, every_built_backend_reports_a_device_or_why_it_has_none) {
  const std::vector<FoundDevice> devices = find_devices();
  for (const std::string& name : backend_names()) {
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const FoundDevice& device) {
      return device.backend == name;
    });
    ASSERT_NE(found, devices.end()) << name;
    EXPECT_EQ(found->problem.empty(), found->info.memory_bytes > 0) << found->problem;
  }
}

TEST(Registry, the_processor_is_always_there) {
  const auto backend = open_backend("cpu", {});
  EXPECT_EQ(backend->info().kind, "cpu");
  EXPECT_FALSE(backend->info().name.empty());
}

TEST(Registry, an_unknown_name_is_refused_with_those_that_are_known) {
  try {
    (void)open_backend("gpu9", {});
    FAIL() << "gpu9 was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("cpu"), std::string::npos);
  }
}

TEST(Registry, a_device_that_is_not_there_is_unavailable) {
  for (const std::string& name : backend_names()) {
    try {
      (void)open_backend(name, {.device = 1000});
      FAIL() << name << " opened device 1000";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
    }
  }
}

}  // namespace
}  // namespace hethub
