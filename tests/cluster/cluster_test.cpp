#include "hethub/cluster/cluster.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/cluster/cluster_file.h"

namespace hethub {
namespace {

Cluster example() { return read_cluster(HETHUB_EXAMPLES "/two_kinds/cluster.yaml"); }

// The message of the error that parsing `content` throws.
std::string refusal_of(const std::string& content) {
  try {
    parse_cluster(parse_document(content, "c.yaml"), "c.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Cluster, a_device_s_position_in_the_listing_is_its_rank) {
  const std::vector<RankPlace> ranks = rank_places(example());
  ASSERT_EQ(ranks.size(), 10U);
  EXPECT_EQ(ranks[3].kind, "gpu-a");
  EXPECT_EQ(ranks[3].node, 0);
  EXPECT_EQ(ranks[3].device, 3);
  EXPECT_EQ(ranks[4].node, 1);
  EXPECT_EQ(ranks[4].device, 0);
  EXPECT_EQ(ranks[9].kind, "gpu-b");
  EXPECT_EQ(ranks[9].node, 2);
  EXPECT_EQ(ranks[9].device, 1);
}

TEST(Cluster, the_example_says_what_its_data_sheets_say) {
  const Cluster cluster = example();
  EXPECT_EQ(kind_named(cluster, "gpu-a").memory_bytes, std::int64_t{80} << 30);
  EXPECT_DOUBLE_EQ(kind_named(cluster, "gpu-b").peak_flops_per_s.at("bf16"), 191.5e12);
  const Link* slow = find_link(cluster, "gpu-b", "gpu-a", LinkScope::kNetwork);
  ASSERT_NE(slow, nullptr);
  EXPECT_DOUBLE_EQ(slow->rate.seconds(12e9), 1 + 20e-6);
  EXPECT_EQ(find_link(cluster, "gpu-b", "gpu-a", LinkScope::kNode), nullptr);
}

TEST(Cluster, what_is_written_is_read_back) {
  const Cluster cluster = example();
  EXPECT_EQ(parse_cluster(to_json(cluster), "again"), cluster);
}

TEST(Cluster, a_machine_s_devices_make_one_node) {
  const Kind cpu{.name = "cpu", .backend = "cpu", .memory_bytes = 1 << 20, .cores_per_rank = 1};
  const Cluster cluster = cluster_of_machine("here", {{cpu, 1}, {cpu, 2}});
  EXPECT_EQ(cluster.kinds.size(), 1U);
  EXPECT_EQ(rank_places(cluster).size(), 3U);
  EXPECT_EQ(rank_places(cluster)[2].device, 2);
  EXPECT_EQ(parse_cluster(to_json(cluster), "again"), cluster);
}

TEST(Cluster, a_misspelt_key_is_refused_with_the_nearest_one) {
  const std::string message = refusal_of(
      "format: hethub-cluster/1\n"
      "kinds: {a: {memory_gb: 3}}\n"
      "nodes: [{name: n, devices: [{kind: a}]}]\n");
  EXPECT_NE(message.find("kinds.a"), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean \"memory_gib\"?"), std::string::npos) << message;
}

TEST(Cluster, every_fault_is_named_at_once) {
  const std::string message = refusal_of(
      "format: hethub-cluster/1\n"
      "kinds: {a: {memory_gib: 0, peak_tflops: {f32: -1}}}\n"
      "nodes: [{name: n, count: 0, devices: [{kind: b, count: -2}]}]\n"
      "links: [{between: [a, c], gb_per_s: 0}]\n");
  for (const char* part :
       {"kind a: memory_gib", "kind a: peak_tflops.f32", "node n: count", "node n: kind, found b",
        "count of b", "cluster: devices, found none", "link a-c: kind, found c", "gb_per_s"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is missing from " << message;
  }
}

TEST(Cluster, wrong_types_words_and_versions_are_refused) {
  EXPECT_NE(refusal_of("format: hethub-cluster/9\n").find("hethub-cluster/1"), std::string::npos);
  EXPECT_NE(refusal_of("format: hethub-cluster/1\nkinds: 3\n").find("kinds"), std::string::npos);
  EXPECT_NE(refusal_of("[1]").find("named fields"), std::string::npos);
  const std::string start =
      "format: hethub-cluster/1\nkinds: {a: {memory_gib: 1}}\n"
      "nodes: [{name: n, devices: [{kind: a}]}]\n";
  EXPECT_NE(refusal_of(start + "links: [{between: [a], gb_per_s: 1}]").find("1 kinds"),
            std::string::npos);
  EXPECT_NE(refusal_of(start + "links: [{between: [a, a], gb_per_s: 1, route: pigeon}]")
                .find("vendor, direct, host-staged"),
            std::string::npos);
  EXPECT_NE(refusal_of(start + "links: {a: 1}").find("a list"), std::string::npos);
}

TEST(Cluster, a_cluster_without_devices_has_no_ranks) {
  EXPECT_THROW(rank_places(Cluster{}), Error);
  EXPECT_THROW(kind_named(Cluster{}, "a"), Error);
}

TEST(Cluster, a_part_has_the_first_devices_of_each_kind) {
  const Cluster whole{.kinds = {{.name = "a"}, {.name = "b"}},
                      .nodes = {{.name = "n", .count = 3, .devices = {{"a", 2}, {"b", 1}}},
                                {.name = "m", .devices = {{"b", 4}}}}};
  const Cluster part = part_of(whole, {{"a", 3}, {"b", 4}});
  EXPECT_EQ(part.nodes, (std::vector<Node>{{"n", 1, {{"a", 2}, {"b", 1}}},
                                           {"n", 1, {{"a", 1}, {"b", 1}}},
                                           {"n", 1, {{"b", 1}}},
                                           {"m", 1, {{"b", 1}}}}));
  EXPECT_EQ(part_of(whole, {{"a", 6}, {"b", 7}}).nodes, whole.nodes);
  EXPECT_TRUE(part_of(whole, {}).nodes.empty());
}

}  // namespace
}  // namespace hethub
