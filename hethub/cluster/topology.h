#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hethub/cluster/cluster.h"

namespace hethub {

/// How two devices of a node are joined, best first but for the number of bonded links.
enum class NodeLink : std::uint8_t {
  kXgmi,        ///< AMD's Infinity Fabric
  kNvLink,      ///< NVIDIA's, `bonded` of them
  kSwitch,      ///< PIX, PXB: through PCIe switches only
  kPcie,        ///< PCIE of rocm-smi: it does not tell over what
  kHostBridge,  ///< PHB: through the processor's host bridge
  kNumaNode,    ///< NODE: between the host bridges of one NUMA node
  kSockets,     ///< SYS: between sockets
};

/// A link between two devices, as a vendor's tool prints it.
struct DevicePair {
  int first = 0;
  int second = 0;
  NodeLink link = NodeLink::kPcie;
  int bonded = 1;
};

/// Every pair of devices of one node.
struct NodeTopology {
  int devices = 0;
  std::vector<DevicePair> pairs = {};
};

/// Reads what `nvidia-smi topo -m` or `rocm-smi --showtopo --json` printed; `name` is the file's,
/// in errors. Network cards are left out. Throws kInvalidConfig for a cell that neither tool
/// prints, a row without a cell for each device, and for more than 64 devices.
NodeTopology parse_topology(std::string_view printed, const std::string& name);

/// The rate one way that such a link has by its data sheet: to be used until `hethub profile` has
/// measured it. NVLink 2 to 4: 25 GB/s a link; Infinity Fabric 3: 50 GB/s; PCIe 4.0 x16: 31.5
/// GB/s, of which the ways through a host bridge and between sockets keep 3/4 and 1/2.
LinkRate rate_of(const DevicePair& pair);

/// The link inside a node of a kind: the slowest of its pairs, since a collective waits for that.
/// Devices without a vendor's link or a switch between them meet through the host. Throws
/// kInvalidConfig if there is but one device.
Link link_of(const NodeTopology& topology, const std::string& kind);

}  // namespace hethub
