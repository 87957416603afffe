#include "hethub/cluster/cluster.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/text.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/cluster/sheets.h"

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

// A cluster of one kind, described by `kind`, and whatever `more` says.
Cluster cluster_of(const std::string& kind, const std::string& more = "") {
  return parse_cluster(
      parse_document(text("format: hethub-cluster/1\nkinds:\n  x: ", kind, "\n", more,
                          "nodes: [{name: n, devices: [{kind: x, count: 4}]}]\n"),
                     "c.yaml"),
      "c.yaml");
}

TEST(Cluster, a_kind_has_its_data_sheet_s_rates_and_class_where_it_states_no_other) {
  const Sheets sheets = known_sheets();
  const DataSheet& sheet = *sheets.find("A800-80GB-SXM");
  const Cluster cluster = cluster_of("{sheet: A800-80GB-SXM, peak_tflops: {bf16: 300}}");
  const Kind& kind = cluster.kinds[0];
  EXPECT_EQ(kind.name, "x");
  EXPECT_EQ(kind.backend, "x");
  EXPECT_EQ(kind.memory_bytes, sheet.kind.memory_bytes);
  EXPECT_EQ(kind.peak_flops_per_s.at("bf16"), 300e12);
  EXPECT_EQ(kind.peak_flops_per_s.at("f16"), sheet.kind.peak_flops_per_s.at("f16"));
  EXPECT_EQ(kind.efficiency, sheets.classes.at(sheet.efficiency_class).ops);
  EXPECT_EQ(kind.processors, sheet.kind.processors);
  EXPECT_NE(kind.source.find(sheet.source), std::string::npos);
  EXPECT_NE(kind.source.find("fitted on"), std::string::npos);
  EXPECT_EQ(parse_cluster(to_json(cluster), "again"), cluster);
}

TEST(Cluster, a_kind_that_is_like_another_differs_in_what_it_states) {
  const Cluster cluster = cluster_of(
      "{like: y, memory_gib: 8, efficiency: {products: 0.5}}\n"
      "  y: {memory_gib: 16, peak_tflops: {bf16: 100}, efficiency: volta, watts: 250}");
  const Kind& kind = kind_named(cluster, "x");
  EXPECT_EQ(kind.memory_bytes, std::int64_t{8} << 30);
  EXPECT_EQ(kind.watts, 250);
  EXPECT_EQ(kind.peak_flops_per_s.at("bf16"), 100e12);
  EXPECT_EQ(kind.efficiency.products, 0.5);
  EXPECT_EQ(kind.efficiency.half_size, known_sheets().classes.at("volta").ops.half_size);
  EXPECT_EQ(parse_cluster(to_json(cluster), "again"), cluster);
}

TEST(Cluster, a_node_s_ports_are_shared_out_among_its_devices) {
  const Cluster cluster = cluster_of("{memory_gib: 1}");
  const std::string link = "links: [{between: [x, x], scope: network, gbit_per_node: 400}]\n";
  const std::string both = "links: [{between: [x, x], gb_per_s: 1, gbit_per_node: 400}]\n";
  EXPECT_DOUBLE_EQ(cluster_of("{memory_gib: 1}", link).links[0].rate.bytes_per_s, 12.5e9);
  EXPECT_THROW(cluster_of("{memory_gib: 1}", both), Error);
}

TEST(Cluster, unknown_sheets_classes_and_rings_of_kinds_are_refused) {
  const auto refusal = [](const std::string& kinds) {
    return refusal_of("format: hethub-cluster/1\nkinds:\n" + kinds +
                      "nodes: [{name: n, devices: [{kind: x}]}]\n");
  };
  EXPECT_NE(refusal("  x: {sheet: A100}\n").find("A100-80GB-SXM"), std::string::npos);
  EXPECT_NE(refusal("  x: {memory_gib: 1, efficiency: amper}\n").find("ampere"), std::string::npos);
  EXPECT_NE(refusal("  x: {memory_gib: 1, efficiency: {product: 1}}\n").find("\"products\""),
            std::string::npos);
  EXPECT_NE(refusal("  x: {like: y}\n  y: {like: x}\n").find("ring"), std::string::npos);
  EXPECT_NE(refusal("  x: {like: z}\n").find("another kind"), std::string::npos);
  EXPECT_NE(refusal("  x: {sheet: T4, like: x}\n").find("both"), std::string::npos);
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
