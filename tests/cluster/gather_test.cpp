#include "hethub/cluster/gather.h"

#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/cluster/topology.h"

namespace hethub {
namespace {

Kind kind_of(const std::string& name, double gib = 1) {
  return {
      .name = name, .backend = name, .memory_bytes = static_cast<std::int64_t>(gib * (1 << 30))};
}

Cluster one_node(const std::string& node, const std::string& kind, int count) {
  return {.kinds = {kind_of(kind)}, .nodes = {{.name = node, .devices = {{kind, count}}}}};
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Gather, files_of_nodes_become_one_cluster) {
  Cluster first = one_node("n1", "a", 4);
  Cluster second = one_node("n2", "a", 4);
  first.links = {{"a", "a", LinkScope::kNode, RouteKind::kVendor, {1e-6, 2e10}}};
  second.links = {{"a", "a", LinkScope::kNode, RouteKind::kVendor, {1e-6, 1e10}}};
  std::vector<std::string> notes;
  const Cluster all = merged({first, second, one_node("n3", "b", 2)}, notes);
  EXPECT_EQ(all.kinds.size(), 2U);
  EXPECT_EQ(rank_places(all).size(), 10U);
  ASSERT_EQ(all.links.size(), 1U);
  EXPECT_EQ(all.links[0].rate.bytes_per_s, 1e10);
  EXPECT_EQ(notes.size(), 1U);
}

TEST(Gather, memory_that_differs_by_some_pages_is_the_smaller) {
  const auto of = [](const std::string& node, double gib) {
    Cluster cluster = one_node(node, "a", 4);
    cluster.kinds[0] = kind_of("a", gib);
    return cluster;
  };
  std::vector<std::string> notes;
  const Cluster all = merged({of("n1", 125.53), of("n2", 125.52), of("n3", 125.54)}, notes);
  ASSERT_EQ(all.kinds.size(), 1U);
  EXPECT_EQ(all.kinds[0].memory_bytes, kind_of("a", 125.52).memory_bytes);
  EXPECT_EQ(notes.size(), 2U);
}

TEST(Gather, of_two_links_each_number_is_the_slower) {
  Cluster first = one_node("n1", "a", 4);
  Cluster second = one_node("n2", "a", 4);
  first.links = {{"a", "a", LinkScope::kNode, RouteKind::kVendor, {1e-6, 1e10}}};
  second.links = {{"a", "a", LinkScope::kNode, RouteKind::kHostStaged, {5e-6, 2e10}}};
  std::vector<std::string> notes;
  const Cluster all = merged({first, second}, notes);
  EXPECT_EQ(all.links[0].rate, (LinkRate{5e-6, 1e10}));
  EXPECT_EQ(all.links[0].route, RouteKind::kHostStaged);
  EXPECT_EQ(notes.size(), 1U);
  notes.clear();
  (void)merged({first, first.links.empty() ? first : one_node("n2", "b", 1)}, notes);
  EXPECT_TRUE(notes.empty());
}

TEST(Gather, contradictions_are_refused) {
  std::vector<std::string> notes;
  Cluster other = one_node("n2", "a", 4);
  other.kinds[0].memory_bytes *= 2;
  EXPECT_NE(refusal([&] {
              merged({one_node("n1", "a", 4), other}, notes);
            }).find("kind a, found memory_gib 1.0 and 2.0"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              merged({one_node("n1", "a", 4), one_node("n1", "a", 2)}, notes);
            }).find("node n1"),
            std::string::npos);
}

TEST(Hostfile, kinds_come_from_the_cluster_or_the_data_sheets) {
  const Sheets sheets = known_sheets();
  const std::string sheet = sheets.sheets.front().kind.name;
  Cluster cluster = one_node("n1", "a", 4);
  add_hosts("# two halves\nn2 slots=8 type=a\n\nn3 slots=2 type=" + sheet + "  # new\nn4\n",
            "hosts", "a", sheets, cluster);
  ASSERT_EQ(cluster.nodes.size(), 4U);
  EXPECT_EQ(cluster.nodes[1].devices, (std::vector<DeviceGroup>{{"a", 8}}));
  EXPECT_EQ(cluster.nodes[2].devices, (std::vector<DeviceGroup>{{sheet, 2}}));
  EXPECT_EQ(cluster.nodes[3].devices, (std::vector<DeviceGroup>{{"a", 1}}));
  EXPECT_EQ(cluster.kinds.size(), 2U);
  EXPECT_GT(cluster.kinds[1].memory_bytes, 0);
  add_network({1e-5, 1e10}, cluster);
  EXPECT_EQ(cluster.links.size(), 3U);
  EXPECT_TRUE(faults_of(cluster).empty());
}

TEST(Hostfile, a_kind_of_every_data_sheet_is_written_and_read_again) {
  const Sheets sheets = known_sheets();
  for (const DataSheet& sheet : sheets.sheets) {
    SCOPED_TRACE(sheet.kind.name);
    Cluster cluster;
    add_hosts("n1 slots=2\n", "hosts", sheet.kind.name, sheets, cluster);
    const Cluster again = parse_cluster(to_json(cluster), "again");
    ASSERT_EQ(again.kinds.size(), 1U);
    EXPECT_FALSE(again.kinds[0].source.empty());
    EXPECT_EQ(again.kinds[0].peak_flops_per_s.size(), cluster.kinds[0].peak_flops_per_s.size());
  }
}

TEST(Hostfile, what_is_wrong_is_named_with_its_line) {
  const Sheets sheets = known_sheets();
  const auto text_of = [&](const std::string& file, const std::string& kind) {
    Cluster cluster = one_node("n1", "a", 4);
    return refusal([&] { add_hosts(file, "hosts", kind, sheets, cluster); });
  };
  EXPECT_NE(text_of("n2 slots=0\n", "a").find("hosts:1"), std::string::npos);
  EXPECT_NE(text_of("n2 slots=99999999999\n", "a").find("slots=99999999999"), std::string::npos);
  EXPECT_NE(text_of("\nn2 gpus=3\n", "a").find("hosts:2, found gpus=3"), std::string::npos);
  EXPECT_NE(text_of("n2 type=zzz\n", "").find("zzz"), std::string::npos);
  EXPECT_NE(text_of("n2\n", "").find("no type"), std::string::npos);
  EXPECT_NE(text_of("n1 slots=2\n", "a").find("n1"), std::string::npos);
  EXPECT_NE(text_of("slots=2\n", "a").find("a host name first"), std::string::npos);
}

constexpr const char* kNvidia =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tNV12\tPXB\t0-31\t0\t\tN/A\n"
    "GPU1\tNV12\t X \tNV4\tPXB\t0-31\t0\t\tN/A\n"
    "GPU2\tNV12\tNV4\t X \tSYS\t32-63\t1\t\tN/A\n"
    "NIC0\tPXB\tPXB\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n"
    "  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";

TEST(Topology, the_slowest_pair_of_nvidia_smi_is_the_link) {
  const NodeTopology topology = parse_topology(kNvidia, "topo.txt");
  EXPECT_EQ(topology.devices, 3);
  EXPECT_EQ(topology.pairs.size(), 3U);
  const Link link = link_of(topology, "a");
  EXPECT_EQ(link.rate.bytes_per_s, 4 * 25e9);
  EXPECT_EQ(link.route, RouteKind::kVendor);
  const std::string sockets =
      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-1\nGPU1\tSYS\t X \t0-1\n";
  EXPECT_EQ(link_of(parse_topology(sockets, "t"), "a").route, RouteKind::kHostStaged);
}

TEST(Topology, rocm_smi_is_read) {
  const std::string printed = R"({"system": {
    "(Topology) Weight between DRM devices 0 and 1": "15",
    "(Topology) Hops between DRM devices 0 and 1": "1",
    "(Topology) Link type between DRM devices 0 and 1": "XGMI",
    "(Topology) Link type between DRM devices 0 and 2": "XGMI",
    "(Topology) Link type between DRM devices 1 and 2": "PCIE"},
    "card0": {"(Topology) Numa Node": "0"}})";
  const NodeTopology topology = parse_topology(printed, "topo.json");
  EXPECT_EQ(topology.devices, 3);
  EXPECT_EQ(link_of(topology, "m").route, RouteKind::kHostStaged);
  EXPECT_EQ(rate_of(topology.pairs[0]).bytes_per_s, 50e9);
}

TEST(Topology, what_no_tool_prints_is_refused) {
  for (const std::string printed :
       {"", "Legend:", "\tGPU0\tGPU1\nGPU0\t X \tNV0\nGPU1\tNV0\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \n", "\tGPU0\tGPU1\nGPU1\tNV1\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \tFOO\nGPU1\tFOO\t X \n", "{}", R"({"system": {}})",
        R"({"system": {"(Topology) Link type between DRM devices 0 and 900": "XGMI"}})",
        R"({"system": {"(Topology) Link type between DRM devices 0 and 2": "XGMI"}})"}) {
    EXPECT_NE(refusal([&] { parse_topology(printed, "t"); }), "") << printed;
  }
  EXPECT_NE(refusal([&] { link_of(parse_topology("\tGPU0\tCPU\nGPU0\t X \t0\n", "t"), "a"); }), "");
}

}  // namespace
}  // namespace hethub
