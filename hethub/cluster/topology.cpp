#include "hethub/cluster/topology.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"

namespace hethub {
namespace {

constexpr int kMostDevices = 64;
constexpr double kLatency = 5e-6;

[[noreturn]] void refuse(std::string what, std::string found, std::string expected) {
  throw Error(ErrorCode::kInvalidConfig,
              {.what = std::move(what),
               .found = std::move(found),
               .expected = std::move(expected),
               .fix = "give what nvidia-smi topo -m or rocm-smi --showtopo --json printed"});
}

// The number behind a prefix, e.g. of "NV12" or "GPU3".
std::optional<int> number_after(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return std::nullopt;
  word.remove_prefix(prefix.size());
  int number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size()) return std::nullopt;
  return number;
}

// Headers are underlined on a terminal: by "ESC [ 4 m" and the like.
std::string without_escapes(std::string_view printed) {
  std::string plain;
  for (std::size_t at = 0; at < printed.size(); ++at) {
    if (!printed.substr(at).starts_with("\x1b[")) {
      plain += printed[at];
      continue;
    }
    at = std::min(printed.find_first_not_of("0123456789;", at + 2), printed.size());
  }
  return plain;
}

DevicePair pair_of(int first, int second, const std::string& cell, const std::string& where) {
  DevicePair pair{.first = first, .second = second};
  if (const auto bonded = number_after(cell, "NV"); bonded && *bonded > 0) {
    pair.link = NodeLink::kNvLink;
    pair.bonded = *bonded;
  } else if (cell == "PIX" || cell == "PXB") {
    pair.link = NodeLink::kSwitch;
  } else if (cell == "PHB") {
    pair.link = NodeLink::kHostBridge;
  } else if (cell == "NODE") {
    pair.link = NodeLink::kNumaNode;
  } else if (cell == "SYS") {
    pair.link = NodeLink::kSockets;
  } else {
    refuse(where, cell.empty() ? "no cell" : cell,
           "X, NV and a number, PIX, PXB, PHB, NODE or SYS");
  }
  return pair;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

NodeTopology parse_nvidia(const std::string& printed, const std::string& name) {
  NodeTopology topology;
  std::istringstream lines(printed);
  int number = 0;
  int row = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty() || !number_after(words[0], "GPU")) continue;
    if (topology.devices == 0) {  // the header
      const auto is_device = [](const std::string& word) {
        return number_after(word, "GPU").has_value();
      };
      topology.devices = static_cast<int>(std::count_if(words.begin(), words.end(), is_device));
      if (topology.devices > kMostDevices) refuse(name, text(topology.devices, " devices"), "64");
      continue;
    }
    const std::string where = text(name, ":", number, ": ", words[0]);
    if (*number_after(words[0], "GPU") != row || row >= topology.devices) {
      refuse(where, "a row out of order", "a header, then a row for each of its devices");
    }
    for (int second = row + 1; second < topology.devices; ++second) {
      const auto cell = static_cast<std::size_t>(second) + 1;
      topology.pairs.push_back(
          pair_of(row, second, cell < words.size() ? words[cell] : std::string(), where));
    }
    ++row;
  }
  if (topology.devices == 0 || row != topology.devices) {
    refuse(name, text(row, " rows of ", topology.devices, " devices"), "a row for each device");
  }
  return topology;
}

// The devices of "(Topology) Link type between DRM devices 0 and 1".
std::optional<std::pair<int, int>> devices_of(std::string_view key) {
  constexpr std::string_view kBegin = "(Topology) Link type between DRM devices ";
  constexpr std::string_view kAnd = " and ";
  const std::size_t middle = key.find(kAnd);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto first = number_after(key.substr(0, middle), kBegin);
  const auto second = number_after(key.substr(middle), kAnd);
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

// Keys name pairs of devices, only those in rising order.
NodeTopology parse_rocm(const std::string& printed, const std::string& name) {
  const Json file = parse_json(printed, name);
  NodeTopology topology;
  const auto system = file.find("system");
  if (system == file.end() || !system->is_object()) {
    refuse(name, "no object \"system\"", "one with the links' types");
  }
  for (const auto& [key, value] : system->items()) {
    const auto devices = devices_of(key);
    if (!devices) continue;
    const auto type = get<std::string>(*system, name, key);
    if (type != "XGMI" && type != "PCIE") refuse(text(name, ": ", key), type, "XGMI or PCIE");
    const DevicePair pair{.first = devices->first,
                          .second = devices->second,
                          .link = type == "XGMI" ? NodeLink::kXgmi : NodeLink::kPcie};
    if (pair.first < 0 || pair.first >= pair.second || pair.second >= kMostDevices) {
      refuse(name, key, "two devices in rising order, below 64");
    }
    topology.pairs.push_back(pair);
    topology.devices = std::max(topology.devices, pair.second + 1);
  }
  const int expected = topology.devices * (topology.devices - 1) / 2;
  if (topology.pairs.empty() || static_cast<int>(topology.pairs.size()) != expected) {
    refuse(name, text(topology.pairs.size(), " links' types"),
           text(expected, ", one for each pair of its devices"));
  }
  return topology;
}

bool is_direct(NodeLink link) { return link <= NodeLink::kSwitch; }

}  // namespace

NodeTopology parse_topology(std::string_view printed, const std::string& name) {
  const std::string plain = without_escapes(printed);
  const auto first = plain.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && plain[first] == '{';
  return is_json ? parse_rocm(plain, name) : parse_nvidia(plain, name);
}

LinkRate rate_of(const DevicePair& pair) {
  constexpr double kPcie = 31.5e9;
  switch (pair.link) {
    case NodeLink::kXgmi:
      return {kLatency, 50e9};
    case NodeLink::kNvLink:
      return {kLatency, pair.bonded * 25e9};
    case NodeLink::kSwitch:
      return {kLatency, kPcie};
    case NodeLink::kPcie:
    case NodeLink::kHostBridge:
    case NodeLink::kNumaNode:
      return {kLatency, kPcie * 3 / 4};
    case NodeLink::kSockets:
      break;
  }
  return {kLatency, kPcie / 2};
}

Link link_of(const NodeTopology& topology, const std::string& kind) {
  if (topology.pairs.empty()) refuse(text("topology of ", kind), "one device", "two or more");
  const DevicePair& slowest = *std::min_element(
      topology.pairs.begin(), topology.pairs.end(), [](const DevicePair& a, const DevicePair& b) {
        return rate_of(a).bytes_per_s < rate_of(b).bytes_per_s;
      });
  return {.first = kind,
          .second = kind,
          .scope = LinkScope::kNode,
          .route = is_direct(slowest.link) ? RouteKind::kVendor : RouteKind::kHostStaged,
          .rate = rate_of(slowest)};
}

}  // namespace hethub
