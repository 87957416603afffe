#include "hethub/accel/host.h"

#include <memory>

#include <hwloc.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/base/host_memory.h"

namespace hethub {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  const bool ready = hwloc_topology_init(&raw) == 0;
  Topology topology(ready ? raw : nullptr, hwloc_topology_destroy);
  if (ready) {
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    // These would start the vendors' drivers, which is the backends' to do.
    for (const char* component : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
      hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    }
  }
  if (!ready || hwloc_topology_load(raw) != 0) {
    throw Error(ErrorCode::kUnavailable, {.what = "topology of this machine",
                                          .found = "no answer from hwloc",
                                          .expected = "sockets, cores and memory",
                                          .fix = "see whether `lstopo` works here"});
  }
  return topology;
}

std::string info_of(hwloc_obj_t object, const char* key) {
  const char* value = hwloc_obj_get_info_by_name(object, key);
  std::string trimmed = value == nullptr ? "" : value;
  trimmed.erase(trimmed.find_last_not_of(' ') + 1);
  return trimmed;
}

std::vector<int> cores_in(hwloc_const_bitmap_t set) {
  std::vector<int> cores;
  for (int core = hwloc_bitmap_first(set); core >= 0; core = hwloc_bitmap_next(set, core)) {
    cores.push_back(core);
  }
  return cores;
}

std::vector<HostCache> caches_of(hwloc_topology_t topology) {
  struct Level {
    hwloc_obj_type_t type;
    const char* name;
  };
  constexpr Level kLevels[] = {
      {HWLOC_OBJ_L1CACHE, "L1d"}, {HWLOC_OBJ_L2CACHE, "L2"}, {HWLOC_OBJ_L3CACHE, "L3"}};
  std::vector<HostCache> caches;
  for (const Level& level : kLevels) {
    const hwloc_obj_t first = hwloc_get_obj_by_type(topology, level.type, 0);
    if (first == nullptr) continue;
    caches.push_back({.name = level.name,
                      .bytes = static_cast<std::int64_t>(first->attr->cache.size),
                      .count = hwloc_get_nbobjs_by_type(topology, level.type)});
  }
  return caches;
}

std::vector<HostNode> nodes_of(hwloc_topology_t topology) {
  std::vector<HostNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back({.index = static_cast<int>(node->os_index),
                     .memory_bytes = static_cast<std::int64_t>(node->attr->numanode.local_memory),
                     .cores = cores_in(node->cpuset)});
  }
  return nodes;
}

// The role of a PCI class code: 02xx network, 0c06 InfiniBand, 03xx display, 12xx accelerators.
std::string role_of(unsigned class_id) {
  if (class_id >> 8 == 0x02 || class_id == 0x0c06) return "network";
  if (class_id >> 8 == 0x03 || class_id >> 8 == 0x12) return "accelerator";
  return "";
}

int node_of(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  if (near == nullptr || near->nodeset == nullptr || hwloc_bitmap_weight(near->nodeset) != 1) {
    return -1;
  }
  return hwloc_bitmap_first(near->nodeset);
}

std::vector<HostPciDevice> pci_of(hwloc_topology_t topology) {
  std::vector<HostPciDevice> devices;
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
    const auto& pci = device->attr->pcidev;
    const std::string role = role_of(pci.class_id);
    if (role.empty()) continue;
    char address[32];
    snprintf(address, sizeof address, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain),
             pci.bus, pci.dev, pci.func);
    char ids[16];
    snprintf(ids, sizeof ids, "%04x:%04x", pci.vendor_id, pci.device_id);
    const std::string vendor = info_of(device, "PCIVendor");
    devices.push_back(
        {.address = address,
         .role = role,
         .name = vendor.empty() ? ids : text(vendor, " ", info_of(device, "PCIDevice")),
         .node = node_of(topology, device),
         .link_bytes_per_second = pci.linkspeed * 1e9});
  }
  return devices;
}

}  // namespace

Host read_host() {
  const Topology topology = load_topology();
  hwloc_topology_t raw = topology.get();
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const hwloc_obj_t package = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PACKAGE, 0);
  return {.name = name,
          .cpu = package == nullptr ? "" : info_of(package, "CPUModel"),
          .sockets = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_PACKAGE),
          .cores = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE),
          .threads = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_PU),
          .memory_bytes = host_memory_bytes(),
          .caches = caches_of(raw),
          .nodes = nodes_of(raw),
          .pci = pci_of(raw)};
}

}  // namespace hethub
