#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hethub {

/// Message time on a link is latency + bytes / bandwidth (the α-β model).
/// Source: Hockney, "The communication challenge for MPP", Parallel Computing 1994.
struct LinkRate {
  double latency_s = 0;
  double bytes_per_s = 0;

  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

/// How data travels between two ranks.
enum class RouteKind : std::uint8_t { kVendor, kDirect, kHostStaged };

/// The route as files spell it: "vendor", "direct" or "host-staged".
std::string_view name_of(RouteKind route);

/// How near a kind's ops come to its data sheet: what an analytic cost is made of. The defaults are
/// the data sheet itself, a bound that no device reaches.
struct RoofFractions {
  double products = 1;            ///< of the peak, that large matrix products reach
  double half_size = 0;           ///< a product whose sum has so many terms reaches half of that
  double attention = 1;           ///< of the peak, by attention whose scores stay on chip
  double portable_attention = 1;  ///< the same by kernels that are not the vendor's
  double memory = 1;              ///< of the memory's rate, by ops that only read and write
  double launch_s = 0;            ///< the least time of an op: what it takes to be launched

  friend bool operator==(const RoofFractions&, const RoofFractions&) = default;
};

/// A model of accelerator, from its data sheet.
struct Kind {
  std::string name = {};                                ///< what plans call it, e.g. "a100"
  std::string backend = {};                             ///< what opens it, e.g. "cuda"
  std::int64_t memory_bytes = 0;                        ///< of one device
  std::map<std::string, double> peak_flops_per_s = {};  ///< dense matrix products, by dtype
  double memory_bytes_per_s = 0;                        ///< 0: not known
  int cores_per_rank = 0;   ///< host cores a rank computes with; 0: it computes on its device
  LinkRate host_copy = {};  ///< between device and host; bytes_per_s 0: the host reads it directly
  int processors = 0;       ///< that share a product's tiles out (SMs, CUs); 0: not known
  RoofFractions efficiency = {};
  double watts = 0;         ///< of one device at work; 0: not known
  double usd_per_hour = 0;  ///< of one device; 0: not known
  std::string source = {};  ///< where these figures come from, in words; "": not stated

  friend bool operator==(const Kind&, const Kind&) = default;
};

/// Like devices of a node.
struct DeviceGroup {
  std::string kind = {};
  int count = 1;

  friend bool operator==(const DeviceGroup&, const DeviceGroup&) = default;
};

/// `count` like machines.
struct Node {
  std::string name = {};
  int count = 1;
  std::vector<DeviceGroup> devices = {};

  friend bool operator==(const Node&, const Node&) = default;
};

/// Which pairs of ranks a link is for.
enum class LinkScope : std::uint8_t { kNode, kNetwork };

/// The scope as files spell it: "node" or "network".
std::string_view name_of(LinkScope scope);

/// What connects a rank of one kind to a rank of another (or of the same), either way.
struct Link {
  std::string first = {};   ///< a kind
  std::string second = {};  ///< a kind
  LinkScope scope = LinkScope::kNode;
  RouteKind route = RouteKind::kHostStaged;
  LinkRate rate = {};

  friend bool operator==(const Link&, const Link&) = default;
};

/// Where a rank stands.
struct RankPlace {
  std::string kind = {};
  int node = 0;    ///< machines are numbered in listing order
  int device = 0;  ///< number among its node's devices of this kind
};

/// What the user has.
struct Cluster {
  std::vector<Kind> kinds = {};
  std::vector<Node> nodes = {};
  std::vector<Link> links = {};

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// One entry per device in listing order: a device's position is its rank. Throws kInvalidConfig if
/// there is none.
std::vector<RankPlace> rank_places(const Cluster& cluster);

/// The first so many devices of each kind, in listing order; what has none left is gone, kinds and
/// links apart. A plan's n-th device of a kind is the same in both.
Cluster part_of(const Cluster& cluster, std::map<std::string, int> devices);

/// The kind of that name. Throws kInvalidConfig, listing the kinds there are.
const Kind& kind_named(const Cluster& cluster, std::string_view name);

/// The link between two kinds in that scope, or nullptr if the cluster states none.
const Link* find_link(const Cluster& cluster, std::string_view a, std::string_view b,
                      LinkScope scope);

/// Every contradiction of a cluster, in reading order, as "WHAT, found ..., expected ...; FIX".
std::vector<std::string> faults_of(const Cluster& cluster);

}  // namespace hethub
