#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hethub {

/// One level of cache: all caches of that level and kind are alike.
struct HostCache {
  std::string name = {};   ///< "L1d", "L2", "L3"
  std::int64_t bytes = 0;  ///< of one of them
  int count = 0;
};

/// One NUMA node.
struct HostNode {
  int index = 0;
  std::int64_t memory_bytes = 0;
  std::vector<int> cores = {};  ///< as the operating system numbers them
};

/// A device on the PCI bus that matters to training: an accelerator or a network card.
struct HostPciDevice {
  std::string address = {};          ///< "0000:3b:00.0"
  std::string role = {};             ///< "accelerator" or "network"
  std::string name = {};             ///< vendor and device, as far as the system knows them
  int node = -1;                     ///< index of the NUMA node it hangs on; -1 if unknown
  double link_bytes_per_second = 0;  ///< of its PCI link; 0 if unknown
};

/// The machine that the devices sit in.
struct Host {
  std::string name = {};
  std::string cpu = {};  ///< as the processor spells itself
  int sockets = 0;
  int cores = 0;    ///< physical ones this process may use
  int threads = 0;  ///< hardware threads this process may use
  std::int64_t memory_bytes = 0;
  std::vector<HostCache> caches = {};
  std::vector<HostNode> nodes = {};
  std::vector<HostPciDevice> pci = {};
};

/// Reads the machine's topology (hwloc). Throws kUnavailable if it cannot be read.
Host read_host();

}  // namespace hethub
