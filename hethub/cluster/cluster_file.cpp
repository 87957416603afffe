#include "hethub/cluster/cluster_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"

namespace hethub {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
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

LinkRate parse_rate(const Json& object, const std::string& where) {
  return {.latency_s = get_or<double>(object, where, "latency_us", 0) / 1e6,
          .bytes_per_s = get<double>(object, where, "gb_per_s") * 1e9};
}

std::map<std::string, double> parse_peaks(const Json& peaks, const std::string& where) {
  std::map<std::string, double> all;
  check_keys(peaks, where, {"f64", "f32", "f16", "bf16", "i8"});
  for (const auto& [dtype, value] : peaks.items()) {
    all[dtype] = get<double>(peaks, where, dtype) * 1e12;
  }
  return all;
}

Kind parse_kind(const std::string& name, const Json& object, const std::string& where) {
  check_keys(object, where,
             {"backend", "memory_gib", "peak_tflops", "memory_gb_per_s", "cores_per_rank",
              "host_copy", "watts", "usd_per_hour"});
  const double gib = get<double>(object, where, "memory_gib");
  Kind kind{.name = name,
            .backend = get_or<std::string>(object, where, "backend", name),
            .memory_bytes = std::llround(std::clamp(gib, 0.0, 1e9) * kGib),
            .memory_bytes_per_s = get_or<double>(object, where, "memory_gb_per_s", 0) * 1e9,
            .cores_per_rank = get_or<int>(object, where, "cores_per_rank", 0),
            .watts = get_or<double>(object, where, "watts", 0),
            .usd_per_hour = get_or<double>(object, where, "usd_per_hour", 0)};
  if (const Json& peaks = member(object, "peak_tflops"); !peaks.is_null()) {
    kind.peak_flops_per_s = parse_peaks(peaks, where + ".peak_tflops");
  }
  if (const Json& copy = member(object, "host_copy"); !copy.is_null()) {
    check_keys(copy, where + ".host_copy", {"latency_us", "gb_per_s"});
    kind.host_copy = parse_rate(copy, where + ".host_copy");
  }
  return kind;
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

Link parse_link(const Json& object, const std::string& where) {
  check_keys(object, where, {"between", "scope", "route", "latency_us", "gb_per_s"});
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
          .rate = parse_rate(object, where)};
}

Json rate_json(const LinkRate& rate) {
  return {{"latency_us", rate.latency_s * 1e6}, {"gb_per_s", rate.bytes_per_s / 1e9}};
}

Json kind_json(const Kind& kind) {
  Json object = {{"backend", kind.backend},
                 {"memory_gib", static_cast<double>(kind.memory_bytes) / kGib}};
  for (const auto& [dtype, rate] : kind.peak_flops_per_s) {
    object["peak_tflops"][dtype] = rate / 1e12;
  }
  if (kind.memory_bytes_per_s > 0) object["memory_gb_per_s"] = kind.memory_bytes_per_s / 1e9;
  if (kind.cores_per_rank > 0) object["cores_per_rank"] = kind.cores_per_rank;
  if (kind.watts > 0) object["watts"] = kind.watts;
  if (kind.usd_per_hour > 0) object["usd_per_hour"] = kind.usd_per_hour;
  if (kind.host_copy.bytes_per_s > 0) object["host_copy"] = rate_json(kind.host_copy);
  return object;
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
  for (const auto& [kind, body] : kinds.items()) {
    cluster.kinds.push_back(parse_kind(kind, body, text(name, ": kinds.", kind)));
  }
  for (const Json& node : list_of(file, name, "nodes")) {
    cluster.nodes.push_back(parse_node(node, text(name, ": nodes[", cluster.nodes.size(), "]")));
  }
  for (const Json& link : list_of(file, name, "links")) {
    cluster.links.push_back(parse_link(link, text(name, ": links[", cluster.links.size(), "]")));
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
