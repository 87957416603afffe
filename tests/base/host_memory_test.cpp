#include "hethub/base/host_memory.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace hethub {
namespace {

// MemTotal leaves out what the kernel keeps for itself.
TEST(HostMemory, is_no_more_than_the_machine_has) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kibibytes = 0;
  file >> key >> kibibytes;
  ASSERT_EQ(key, "MemTotal:");
  EXPECT_GT(host_memory_bytes(), 64 << 20);
  EXPECT_LE(host_memory_bytes(), kibibytes * 1024);
}

TEST(HostMemory, has_a_part_that_is_free) {
  EXPECT_GT(free_host_memory_bytes(), 0);
  EXPECT_LT(free_host_memory_bytes(), host_memory_bytes());
}

}  // namespace
}  // namespace hethub
