#include "hethub/cluster/gather.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"
#include "hethub/cluster/kind_file.h"

namespace hethub {
namespace {

constexpr int kMostSlots = 1024;

[[noreturn]] void refuse(std::string what, std::string found, std::string expected,
                         std::string fix) {
  throw Error(ErrorCode::kInvalidConfig, {.what = std::move(what),
                                          .found = std::move(found),
                                          .expected = std::move(expected),
                                          .fix = std::move(fix)});
}

// What two descriptions of a kind say differently: "processors 8 and 16".
std::string differences(const Kind& first, const Kind& second) {
  const Json one = kind_json(first);
  const Json other = kind_json(second);
  std::string all;
  for (const Json& object : {one, other}) {
    for (const auto& [key, value] : object.items()) {
      const Json mine = one.value(key, Json());
      const Json theirs = other.value(key, Json());
      const std::string line = text(key, ' ', mine.dump(), " and ", theirs.dump());
      if (mine == theirs || all.find(line) != std::string::npos) continue;
      all += text(all.empty() ? "" : ", ", line);
    }
  }
  return all;
}

// Alike hosts have memory that differs by some pages.
void add_kind(const Kind& kind, Cluster& cluster, std::vector<std::string>& notes) {
  constexpr double kAlike = 0.95;
  const auto same = [&](const Kind& other) { return other.name == kind.name; };
  const auto known = std::find_if(cluster.kinds.begin(), cluster.kinds.end(), same);
  if (known == cluster.kinds.end()) {
    cluster.kinds.push_back(kind);
    return;
  }
  const auto [least, most] = std::minmax(known->memory_bytes, kind.memory_bytes);
  Kind merged = kind;
  merged.memory_bytes = known->memory_bytes;
  if (*known != merged || static_cast<double>(least) < kAlike * static_cast<double>(most)) {
    refuse(text("kind ", kind.name), differences(*known, kind), "one description of it",
           "make the files agree, or give the devices kinds of their own names");
  }
  if (least == most) return;
  known->memory_bytes = least;
  notes.push_back(text("kind ", kind.name, " has ", least, " bytes on one node and ", most,
                       " on another; the smaller is taken"));
}

void add_link(const Link& link, Cluster& cluster, std::vector<std::string>& notes) {
  const Link* found = find_link(cluster, link.first, link.second, link.scope);
  if (found == nullptr) {
    cluster.links.push_back(link);
    return;
  }
  Link& known = cluster.links[static_cast<std::size_t>(found - cluster.links.data())];
  const Link before = known;
  known.rate.bytes_per_s = std::min(known.rate.bytes_per_s, link.rate.bytes_per_s);
  known.rate.latency_s = std::max(known.rate.latency_s, link.rate.latency_s);
  // A route through the host is what any pair can take.
  if (link.route != known.route) known.route = RouteKind::kHostStaged;
  if (known.rate == link.rate && known.rate == before.rate && known.route == link.route &&
      known.route == before.route) {
    return;
  }
  notes.push_back(text("link ", link.first, "-", link.second, " (", name_of(link.scope),
                       ") is stated twice; the slower is taken"));
}

// "slots=8" of a hostfile's line.
int slots_of(const std::string& word, const std::string& where) {
  const std::string number = word.substr(word.find('=') + 1);
  int slots = 0;
  const char* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, slots);
  if (read.ec != std::errc() || read.ptr != end || slots < 1 || slots > kMostSlots) {
    refuse(where, word, text("slots=1 to slots=", kMostSlots), "correct it");
  }
  return slots;
}

// One host of a hostfile.
DeviceGroup devices_of(std::istringstream& words, const std::string& where,
                       const std::string& kind) {
  DeviceGroup group{.kind = kind, .count = 1};
  for (std::string word; words >> word;) {
    if (word.starts_with("slots=")) {
      group.count = slots_of(word, where);
    } else if (word.starts_with("type=")) {
      group.kind = word.substr(5);
    } else {
      refuse(where, word, "slots=N or type=KIND", "remove it");
    }
  }
  if (group.kind.empty()) {
    refuse(where, "no type", "type=KIND", "state it, or give --kind for the hosts without");
  }
  return group;
}

void require_kind(const DeviceGroup& group, const std::string& where, const Sheets& sheets,
                  Cluster& cluster) {
  const auto same = [&](const Kind& kind) { return kind.name == group.kind; };
  if (std::any_of(cluster.kinds.begin(), cluster.kinds.end(), same)) return;
  const DataSheet* sheet = sheets.find(group.kind);
  if (sheet == nullptr) {
    std::string all;
    for (const DataSheet& one : sheets.sheets) {
      all += text(all.empty() ? "" : ", ", one.kind.name);
    }
    refuse(text(where, ": type"), group.kind, text("a kind of the cluster files, or one of ", all),
           "correct it, or describe the kind in a cluster file and give that, too");
  }
  Kind kind = kind_of_sheet(sheets, *sheet);
  if (kind.backend.empty()) kind.backend = kind.name;
  cluster.kinds.push_back(std::move(kind));
}

}  // namespace

Cluster merged(const std::vector<Cluster>& parts, std::vector<std::string>& notes) {
  Cluster all;
  std::set<std::string> names;
  for (const Cluster& part : parts) {
    for (const Kind& kind : part.kinds) {
      add_kind(kind, all, notes);
    }
    for (const Node& node : part.nodes) {
      if (!names.insert(node.name).second) {
        refuse(text("node ", node.name), "twice", "each node once",
               "leave one of the files out, or rename the node");
      }
      all.nodes.push_back(node);
    }
    for (const Link& link : part.links) {
      add_link(link, all, notes);
    }
  }
  return all;
}

void add_hosts(std::string_view hostfile, const std::string& name, const std::string& kind,
               const Sheets& sheets, Cluster& cluster) {
  std::istringstream lines{std::string(hostfile)};
  std::set<std::string> names;
  for (const Node& node : cluster.nodes) {
    names.insert(node.name);
  }
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (!(words >> host)) continue;
    const std::string where = text(name, ":", number);
    if (host.find('=') != std::string::npos) {
      refuse(where, host, "a host name first", "write HOST slots=N type=KIND");
    }
    const DeviceGroup group = devices_of(words, where, kind);
    require_kind(group, where, sheets, cluster);
    if (!names.insert(host).second) {
      refuse(text(where, ": host"), host, "each host once", "merge its lines");
    }
    cluster.nodes.push_back({.name = host, .devices = {group}});
  }
}

void add_network(LinkRate rate, Cluster& cluster) {
  for (std::size_t a = 0; a < cluster.kinds.size(); ++a) {
    for (std::size_t b = a; b < cluster.kinds.size(); ++b) {
      const std::string& first = cluster.kinds[a].name;
      const std::string& second = cluster.kinds[b].name;
      if (find_link(cluster, first, second, LinkScope::kNetwork) != nullptr) continue;
      cluster.links.push_back({first, second, LinkScope::kNetwork, RouteKind::kHostStaged, rate});
    }
  }
}

}  // namespace hethub
