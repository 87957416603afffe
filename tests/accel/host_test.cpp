#include "hethub/accel/host.h"

#include <thread>

#include <gtest/gtest.h>

#include "hethub/base/host_memory.h"

namespace hethub {
namespace {

TEST(Host, agrees_with_what_the_system_says) {
  const Host host = read_host();
  EXPECT_EQ(host.threads, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GE(host.threads, host.cores);
  EXPECT_GE(host.sockets, 1);
  EXPECT_EQ(host.memory_bytes, host_memory_bytes());
}

TEST(Host, has_its_cores_on_numa_nodes) {
  std::size_t cores = 0;
  for (const HostNode& node : read_host().nodes) {
    cores += node.cores.size();
  }
  EXPECT_EQ(cores, static_cast<std::size_t>(read_host().threads));
}

}  // namespace
}  // namespace hethub
