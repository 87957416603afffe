#include "hethub/cluster/cluster_file.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/cluster/kind_file.h"

namespace hethub {
namespace {

constexpr std::string_view kFormat = "hethub-cluster/1";

const Json& member(const Json& object, std::string_view key) {
  static const Json kNone;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNone : *found;
}

// The value of an enum spelled `word`, of `count` values from 0.
template <typename Enum>
Enum parse_enum(const std::string& word, const std::string& where, int count) {
  std::string all;
  for (int value = 0; value < count; ++value) {
    const auto candidate = static_cast<Enum>(value);
    if (name_of(candidate) == word) return candidate;
    all += text(value == 0 ? "" : ", ", name_of(candidate));
  }
  throw Error(ErrorCode::kInvalidConfig, {.what = where,
                                          .found = "\"" + word + "\"",
                                          .expected = "one of " + all,
                                          .fix = "correct the spelling"});
}

const Json& list_of(const Json& object, const std::string& where, std::string_view key) {
  const Json& list = member(object, key);
  if (list.is_null() || list.is_array()) return list;
  throw Error(ErrorCode::kInvalidConfig, {.what = text(where, ": ", key),
                                          .found = list.type_name(),
                                          .expected = "a list",
                                          .fix = "write it as [ ... ]"});
}

Node parse_node(const Json& object, const std::string& where) {
  check_keys(object, where, {"name", "count", "devices"});
  Node node{.name = get<std::string>(object, where, "name"),
            .count = get_or<int>(object, where, "count", 1)};
  for (const Json& item : list_of(object, where, "devices")) {
    const std::string place = text(where, ".devices[", node.devices.size(), "]");
    check_keys(item, place, {"kind", "count"});
    node.devices.push_back({.kind = get<std::string>(item, place, "kind"),
                            .count = get_or<int>(item, place, "count", 1)});
  }
  return node;
}

// The most devices of a node that has one of those kinds: they share its ports.
int devices_beside(const Cluster& cluster, const std::vector<std::string>& kinds) {
  int most = 1;
  for (const Node& node : cluster.nodes) {
    int devices = 0;
    bool has_one = false;
    for (const DeviceGroup& group : node.devices) {
      devices += group.count;
      has_one = has_one || group.kind == kinds[0] || group.kind == kinds[1];
    }
    if (has_one) most = std::max(most, devices);
  }
  return most;
}

// "gbit_per_node" is of all devices of a node together, of which each has an even share.
LinkRate link_rate(const Json& object, const std::string& where, const Cluster& cluster,
                   const std::vector<std::string>& ends) {
  if (!object.contains("gbit_per_node")) return parse_rate(object, where);
  if (object.contains("gb_per_s")) {
    throw Error(ErrorCode::kInvalidConfig, {.what = where,
                                            .found = "both gb_per_s and gbit_per_node",
                                            .expected = "one of them",
                                            .fix = "leave one out"});
  }
  const double of_node = get<double>(object, where, "gbit_per_node") * 1e9 / 8;
  return {.latency_s = get_or<double>(object, where, "latency_us", 0) / 1e6,
          .bytes_per_s = of_node / devices_beside(cluster, ends)};
}

Link parse_link(const Json& object, const std::string& where, const Cluster& cluster) {
  check_keys(object, where,
             {"between", "scope", "route", "latency_us", "gb_per_s", "gbit_per_node"});
  const auto ends = get<std::vector<std::string>>(object, where, "between");
  if (ends.size() != 2) {
    throw Error(ErrorCode::kInvalidConfig, {.what = where + ": between",
                                            .found = text(ends.size(), " kinds"),
                                            .expected = "2, e.g. [a100, mi250x] or [a100, a100]",
                                            .fix = "name both ends"});
  }
  return {.first = ends[0],
          .second = ends[1],
          .scope = parse_enum<LinkScope>(get_or<std::string>(object, where, "scope", "node"),
                                         where + ": scope", 2),
          .route = parse_enum<RouteKind>(get_or<std::string>(object, where, "route", "host-staged"),
                                         where + ": route", 3),
          .rate = link_rate(object, where, cluster, ends)};
}

}  // namespace

Cluster parse_cluster(const Json& file, const std::string& name) {
  check_keys(file, name, {"format", "kinds", "nodes", "links"});
  const auto format = get<std::string>(file, name, "format");
  if (format != kFormat) {
    throw Error(ErrorCode::kInvalidConfig, {.what = name + ": format",
                                            .found = "\"" + format + "\"",
                                            .expected = text("\"", kFormat, "\""),
                                            .fix = "give a cluster file of this version"});
  }
  Cluster cluster;
  const Json& kinds = member(file, "kinds");
  if (!kinds.is_object()) get<std::vector<std::string>>(Json::object(), name, "kinds");
  cluster.kinds = parse_kinds(kinds, name);
  for (const Json& node : list_of(file, name, "nodes")) {
    cluster.nodes.push_back(parse_node(node, text(name, ": nodes[", cluster.nodes.size(), "]")));
  }
  for (const Json& link : list_of(file, name, "links")) {
    cluster.links.push_back(
        parse_link(link, text(name, ": links[", cluster.links.size(), "]"), cluster));
  }
  const std::vector<std::string> faults = faults_of(cluster);
  if (faults.empty()) return cluster;
  std::string all;
  for (const std::string& fault : faults) {
    all += text(all.empty() ? "" : "\n  ", fault);
  }
  throw Error(ErrorCode::kInvalidConfig, {.what = name,
                                          .found = text(faults.size(), " faults:\n  ", all, "\n"),
                                          .expected = "a cluster without contradictions",
                                          .fix = "mend what is listed"});
}

Cluster read_cluster(const std::filesystem::path& file) {
  return parse_cluster(read_document(file), file.string());
}

Json to_json(const Cluster& cluster) {
  Json file = {{"format", kFormat}, {"kinds", Json::object()}};
  for (const Kind& kind : cluster.kinds) {
    file["kinds"][kind.name] = kind_json(kind);
  }
  file["nodes"] = Json::array();
  for (const Node& node : cluster.nodes) {
    Json devices = Json::array();
    for (const DeviceGroup& group : node.devices) {
      devices.push_back({{"kind", group.kind}, {"count", group.count}});
    }
    file["nodes"].push_back({{"name", node.name}, {"count", node.count}, {"devices", devices}});
  }
  file["links"] = Json::array();
  for (const Link& link : cluster.links) {
    Json object = {{"between", {link.first, link.second}},
                   {"scope", name_of(link.scope)},
                   {"route", name_of(link.route)}};
    object.update(rate_json(link.rate));
    file["links"].push_back(object);
  }
  return file;
}

void write_cluster(const Cluster& cluster, const std::filesystem::path& file) {
  write_file(file, to_json(cluster).dump(1) + "\n");
}

Cluster cluster_of_machine(const std::string& node, const std::vector<MachineDevice>& devices) {
  Cluster cluster;
  Node machine{.name = node};
  for (const MachineDevice& device : devices) {
    const bool known = std::any_of(cluster.kinds.begin(), cluster.kinds.end(),
                                   [&](const Kind& kind) { return kind.name == device.kind.name; });
    if (!known) cluster.kinds.push_back(device.kind);
    machine.devices.push_back({.kind = device.kind.name, .count = device.count});
  }
  cluster.nodes.push_back(std::move(machine));
  return cluster;
}

}  // namespace hethub
