#include "hethub/comm/host_list.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

std::string joined(const std::string& list) {
  std::string all;
  for (const std::string& host : expand_host_list(list)) {
    all += (all.empty() ? "" : " ") + host;
  }
  return all;
}

// What `scontrol show hostnames` of Slurm 22.05.8 gives for each.
TEST(HostList, expands_as_slurm_does) {
  EXPECT_EQ(joined("n"), "n");
  EXPECT_EQ(joined("linux[1,2]"), "linux1 linux2");
  EXPECT_EQ(joined("node[001-003,7]"), "node001 node002 node003 node7");
  EXPECT_EQ(joined("node[01-3]"), "node01 node02 node03");
  EXPECT_EQ(joined("node[9-11]"), "node9 node10 node11");
  EXPECT_EQ(joined("n[1,1]"), "n1 n1");
  EXPECT_EQ(joined("nodeA,nodeB[001,003],nodeC"), "nodeA nodeB001 nodeB003 nodeC");
  EXPECT_EQ(joined("ml-16-node-[001-002,004],ml-17-node-[001-003]"),
            "ml-16-node-001 ml-16-node-002 ml-16-node-004 ml-17-node-001 ml-17-node-002 "
            "ml-17-node-003");
  EXPECT_EQ(joined("c427-032,c429-002"), "c427-032 c429-002");
  EXPECT_EQ(joined("jean-zay-ia810"), "jean-zay-ia810");
  EXPECT_EQ(joined("rack[0-1]_blade[0-1]"), "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1");
}

TEST(HostList, what_is_malformed_or_too_long_is_refused) {
  for (const char* list : {"",
                           ",",
                           "a,",
                           ",a",
                           "a,,b",
                           "node[3-1]",
                           "node[1",
                           "node]",
                           "node[]",
                           "node[1,]",
                           "node[a]",
                           "node[-1]",
                           "node[1-]",
                           "node[1-2-3]",
                           "node[1[2]]",
                           "a b",
                           "n[0-65536]",
                           "n[0-300]m[0-300]",
                           "n[0-99999999999999999999]",
                           "n[0-999999999999999999]",
                           "n[0-65000],m[0-65000]"}) {
    try {
      expand_host_list(list);
      ADD_FAILURE() << list << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig) << error.what();
    }
  }
  EXPECT_EQ(expand_host_list("n[0-65535]").size(), 65536U);
}

}  // namespace
}  // namespace hethub
