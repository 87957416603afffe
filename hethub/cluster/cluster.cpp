#include "hethub/cluster/cluster.h"

#include <algorithm>
#include <array>
#include <set>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr std::array<std::string_view, 3> kRoutes = {"vendor", "direct", "host-staged"};
constexpr std::array<std::string_view, 2> kScopes = {"node", "network"};
constexpr int kMostDevices = 1'000'000;

std::string names_of(const std::vector<Kind>& kinds) {
  std::string all;
  for (const Kind& kind : kinds) {
    all += (all.empty() ? "" : ", ") + kind.name;
  }
  return all.empty() ? "no kind at all" : all;
}

// Notes a fault unless a condition holds.
class Faults {
 public:
  void expect(bool condition, const std::string& what, const std::string& found,
              const std::string& expected, const std::string& fix) {
    if (condition) return;
    list_.push_back(text(what, ", found ", found, ", expected ", expected, "; ", fix));
  }

  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void check_kinds(const Cluster& cluster, Faults& faults) {
  std::set<std::string> names;
  for (const Kind& kind : cluster.kinds) {
    const std::string where = text("kind ", kind.name);
    faults.expect(names.insert(kind.name).second, where, "twice", "each kind once", "rename one");
    faults.expect(kind.memory_bytes > 0, where + ": memory_gib", text(kind.memory_bytes, " bytes"),
                  "more than 0", "state the memory of one device");
    for (const auto& [dtype, rate] : kind.peak_flops_per_s) {
      faults.expect(rate > 0, where + ": peak_tflops." + dtype, text(rate / 1e12), "more than 0",
                    "state the data sheet's rate, or leave the dtype out");
    }
    faults.expect(kind.memory_bytes_per_s >= 0, where + ": memory_gb_per_s",
                  text(kind.memory_bytes_per_s / 1e9), "0 or more", "correct it");
    faults.expect(kind.watts >= 0, where + ": watts", text(kind.watts), "0 or more", "correct it");
    faults.expect(kind.usd_per_hour >= 0, where + ": usd_per_hour", text(kind.usd_per_hour),
                  "0 or more", "correct it");
    faults.expect(kind.cores_per_rank >= 0, where + ": cores_per_rank", text(kind.cores_per_rank),
                  "0 or more", "correct it");
    faults.expect(kind.host_copy.latency_s >= 0 && kind.host_copy.bytes_per_s >= 0,
                  where + ": host_copy", "a negative number", "0 or more", "correct it");
  }
}

void check_nodes(const Cluster& cluster, Faults& faults) {
  double devices = 0;
  for (const Node& node : cluster.nodes) {
    const std::string where = text("node ", node.name);
    faults.expect(node.count >= 1, where + ": count", text(node.count), "1 or more",
                  "remove the node or give it a count");
    for (const DeviceGroup& group : node.devices) {
      const bool known = std::any_of(cluster.kinds.begin(), cluster.kinds.end(),
                                     [&](const Kind& kind) { return kind.name == group.kind; });
      faults.expect(known, where + ": kind", group.kind, "one of " + names_of(cluster.kinds),
                    "describe it under \"kinds\"");
      faults.expect(group.count >= 1, where + ": count of " + group.kind, text(group.count),
                    "1 or more", "remove the entry or give it a count");
      devices += 1.0 * node.count * group.count;
    }
  }
  faults.expect(devices > 0, "cluster: devices", "none", "1 or more",
                "list nodes with devices, or run hethub devices --cluster FILE on each");
  faults.expect(devices <= kMostDevices, "cluster: devices", text(devices),
                text("at most ", kMostDevices), "correct the counts");
}

void check_links(const Cluster& cluster, Faults& faults) {
  for (const Link& link : cluster.links) {
    const std::string where = text("link ", link.first, "-", link.second);
    for (const std::string& end : {link.first, link.second}) {
      const bool known = std::any_of(cluster.kinds.begin(), cluster.kinds.end(),
                                     [&](const Kind& kind) { return kind.name == end; });
      faults.expect(known, where + ": kind", end, "one of " + names_of(cluster.kinds),
                    "describe it under \"kinds\"");
    }
    faults.expect(link.rate.latency_s >= 0, where + ": latency_us", text(link.rate.latency_s * 1e6),
                  "0 or more", "correct it");
    faults.expect(link.rate.bytes_per_s > 0, where + ": gb_per_s",
                  text(link.rate.bytes_per_s / 1e9), "more than 0", "correct it");
  }
}

}  // namespace

std::string_view name_of(RouteKind route) { return kRoutes.at(static_cast<std::size_t>(route)); }
std::string_view name_of(LinkScope scope) { return kScopes.at(static_cast<std::size_t>(scope)); }

std::vector<RankPlace> rank_places(const Cluster& cluster) {
  std::vector<RankPlace> ranks;
  int machine = 0;
  for (const Node& node : cluster.nodes) {
    for (int copy = 0; copy < node.count; ++copy, ++machine) {
      std::map<std::string, int> next;
      for (const DeviceGroup& group : node.devices) {
        for (int device = 0; device < group.count; ++device) {
          ranks.push_back({.kind = group.kind, .node = machine, .device = next[group.kind]++});
        }
      }
    }
  }
  if (ranks.empty()) {
    throw Error(ErrorCode::kInvalidConfig,
                {.what = "cluster: devices",
                 .found = "none",
                 .expected = "1 or more",
                 .fix = "list nodes with devices, or run hethub devices --cluster FILE"});
  }
  return ranks;
}

Cluster part_of(const Cluster& cluster, std::map<std::string, int> devices) {
  Cluster part{.kinds = cluster.kinds, .nodes = {}, .links = cluster.links};
  for (const Node& like : cluster.nodes) {
    for (int copy = 0; copy < like.count; ++copy) {
      Node node{.name = like.name};
      for (const DeviceGroup& group : like.devices) {
        int& left = devices[group.kind];
        const int taken = std::min(left, group.count);
        left -= taken;
        if (taken > 0) node.devices.push_back({.kind = group.kind, .count = taken});
      }
      if (node.devices.empty()) continue;
      const bool same = !part.nodes.empty() && part.nodes.back().name == node.name &&
                        part.nodes.back().devices == node.devices;
      if (same) {
        ++part.nodes.back().count;
      } else {
        part.nodes.push_back(std::move(node));
      }
    }
  }
  return part;
}

const Kind& kind_named(const Cluster& cluster, std::string_view name) {
  const auto found = std::find_if(cluster.kinds.begin(), cluster.kinds.end(),
                                  [&](const Kind& kind) { return kind.name == name; });
  if (found != cluster.kinds.end()) return *found;
  throw Error(ErrorCode::kInvalidConfig, {.what = "cluster: kind",
                                          .found = std::string(name),
                                          .expected = "one of " + names_of(cluster.kinds),
                                          .fix = "describe it under \"kinds\""});
}

const Link* find_link(const Cluster& cluster, std::string_view a, std::string_view b,
                      LinkScope scope) {
  const auto found =
      std::find_if(cluster.links.begin(), cluster.links.end(), [&](const Link& link) {
        const bool joins =
            (link.first == a && link.second == b) || (link.first == b && link.second == a);
        return joins && link.scope == scope;
      });
  return found == cluster.links.end() ? nullptr : &*found;
}

std::vector<std::string> faults_of(const Cluster& cluster) {
  Faults faults;
  check_kinds(cluster, faults);
  check_nodes(cluster, faults);
  check_links(cluster, faults);
  return faults.take();
}

}  // namespace hethub
