#include "hethub/comm/tcp/interfaces.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

InterfaceAddress nic(const std::string& name, const std::string& address) {
  return {.interface = name,
          .address = address,
          .v6 = address.find(':') != std::string::npos,
          .running = true};
}

// A host of the kind that makes others choose loopback or a container's bridge.
std::vector<InterfaceAddress> host() {
  std::vector<InterfaceAddress> all = {nic("lo", "127.0.0.1"), nic("docker0", "172.17.0.1"),
                                       nic("eth0", "fd00::2"), nic("eth0", "10.0.0.2"),
                                       nic("eth1", "fe80::1%eth1")};
  all[0].loopback = true;
  all[4].link_local = true;
  return all;
}

TEST(Interfaces, a_network_card_goes_before_a_bridge_and_loopback_never_goes) {
  EXPECT_EQ(chosen_address(host(), "").address, "10.0.0.2");
  EXPECT_EQ(reachable_addresses(host(), "").size(), 3U);
  EXPECT_EQ(reachable_addresses(host(), "").back().interface, "docker0");
}

TEST(Interfaces, a_list_includes_by_prefix_or_name_and_excludes_after_a_caret) {
  EXPECT_EQ(chosen_address(host(), "docker").address, "172.17.0.1");
  EXPECT_EQ(chosen_address(host(), "^eth0").address, "172.17.0.1");
  EXPECT_TRUE(admits("", "ib0"));
  EXPECT_TRUE(admits("eth,ib", "ib0"));
  EXPECT_FALSE(admits("=eth", "eth0"));
  EXPECT_TRUE(admits("=eth,=eth0", "eth0"));
  EXPECT_FALSE(admits("^docker,lo", "lo"));
  EXPECT_TRUE(admits("^docker,lo", "eth0"));
}

TEST(Interfaces, where_none_is_left_all_that_were_found_are_named) {
  std::vector<InterfaceAddress> all = host();
  all[1].running = false;  // a bridge without containers
  try {
    chosen_address(all, "^eth0");
    ADD_FAILURE() << "one was chosen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
    const std::string said = error.what();
    EXPECT_NE(said.find("--iface ^eth0, found lo 127.0.0.1 (loopback), docker0 172.17.0.1 (down), "
                        "eth0 fd00::2, eth0 10.0.0.2, eth1 fe80::1%eth1 (link-local)"),
              std::string::npos)
        << said;
  }
}

TEST(Interfaces, those_of_this_host_have_the_loopback_address) {
  bool found = false;
  for (const InterfaceAddress& one : interface_addresses()) {
    found = found || (one.loopback && is_loopback(one.address));
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("10.0.0.1"));
  EXPECT_FALSE(is_loopback("localhost"));
}

}  // namespace
}  // namespace hethub
