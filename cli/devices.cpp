#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/devices_routes.h"
#include "cli/verb.h"
#include "hethub/accel/host.h"
#include "hethub/accel/registry.h"
#include "hethub/base/json.h"
#include "hethub/base/text.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/comm/tcp/interfaces.h"

namespace hethub {
namespace {

struct DevicesArguments {
  std::string cluster = {};                // the file to write
  std::vector<std::string> backends = {};  // all if empty
  std::string interfaces = {};             // a list, as --iface has it
  bool net = false;
  bool routes = false;
};

// Those of the list, if there is one.
std::vector<FoundDevice> chosen(std::vector<FoundDevice> devices,
                                const std::vector<std::string>& backends) {
  if (backends.empty()) return devices;
  std::erase_if(devices, [&](const FoundDevice& device) {
    return std::find(backends.begin(), backends.end(), device.backend) == backends.end();
  });
  return devices;
}

constexpr double kGiB = 1024.0 * 1024 * 1024;

Json json_of(const FoundDevice& device) {
  if (!device.problem.empty()) {
    return {{"backend", device.backend}, {"usable", false}, {"problem", device.problem}};
  }
  return {{"backend", device.backend},
          {"device", device.device},
          {"usable", true},
          {"kind", device.info.kind},
          {"name", device.info.name},
          {"memory_bytes", device.info.memory_bytes},
          {"driver", device.info.driver}};
}

Json json_of(const Host& host) {
  Json caches = Json::array();
  for (const HostCache& cache : host.caches) {
    caches.push_back({{"name", cache.name}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  Json nodes = Json::array();
  for (const HostNode& node : host.nodes) {
    nodes.push_back(
        {{"index", node.index}, {"memory_bytes", node.memory_bytes}, {"cores", node.cores}});
  }
  Json pci = Json::array();
  for (const HostPciDevice& device : host.pci) {
    pci.push_back({{"address", device.address},
                   {"role", device.role},
                   {"name", device.name},
                   {"numa_node", device.node},
                   {"link_bytes_per_second", device.link_bytes_per_second}});
  }
  return {{"name", host.name},   {"cpu", host.cpu},         {"sockets", host.sockets},
          {"cores", host.cores}, {"threads", host.threads}, {"memory_bytes", host.memory_bytes},
          {"caches", caches},    {"numa_nodes", nodes},     {"pci", pci}};
}

void print_json(const std::vector<FoundDevice>& devices, const Host& host) {
  Json rows = Json::array();
  for (const FoundDevice& device : devices) {
    rows.push_back(json_of(device));
  }
  std::cout << Json({{"devices", rows}, {"host", json_of(host)}}).dump(2) << '\n';
}

void print_devices(const std::vector<FoundDevice>& devices) {
  std::printf("%-8s %6s  %-10s %10s  %s\n", "backend", "device", "kind", "memory", "name");
  for (const FoundDevice& device : devices) {
    if (!device.problem.empty()) continue;
    std::printf("%-8s %6d  %-10s %6.1f GiB  %s (%s)\n", device.backend.c_str(), device.device,
                device.info.kind.c_str(), static_cast<double>(device.info.memory_bytes) / kGiB,
                device.info.name.c_str(), device.info.driver.c_str());
  }
}

void print_problems(const std::vector<FoundDevice>& devices) {
  std::printf("\nnot usable:\n");
  for (const FoundDevice& device : devices) {
    if (device.problem.empty()) continue;
    std::printf("  %-8s %s\n", device.backend.c_str(), device.problem.c_str());
  }
}

void print_host(const Host& host) {
  std::printf("\nhost %s: %s, sockets %d, cores %d, threads %d, %.1f GiB\n", host.name.c_str(),
              host.cpu.c_str(), host.sockets, host.cores, host.threads,
              static_cast<double>(host.memory_bytes) / kGiB);
  for (const HostCache& cache : host.caches) {
    std::printf("  %d x %s of %lld KiB\n", cache.count, cache.name.c_str(),
                static_cast<long long>(cache.bytes / 1024));
  }
  for (const HostNode& node : host.nodes) {
    std::printf("  NUMA node %d: %zu threads, %.1f GiB\n", node.index, node.cores.size(),
                static_cast<double>(node.memory_bytes) / kGiB);
  }
  for (const HostPciDevice& device : host.pci) {
    const std::string link = device.link_bytes_per_second > 0
                                 ? text(device.link_bytes_per_second / 1e9, " GB/s")
                                 : "link speed unknown";
    std::printf("  PCI %s: %s, %s, NUMA node %s, %s\n", device.address.c_str(), device.role.c_str(),
                device.name.c_str(), device.node < 0 ? "unknown" : text(device.node).c_str(),
                link.c_str());
  }
}

// What is here as a cluster file: one node, a device of each usable kind and number.
void write_cluster_file(const std::vector<FoundDevice>& devices, const std::string& file) {
  std::vector<MachineDevice> found;
  for (const FoundDevice& device : devices) {
    if (!device.problem.empty()) continue;
    found.push_back({.kind = {.name = device.info.kind,
                              .backend = device.backend,
                              .memory_bytes = device.info.memory_bytes}});
  }
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  write_cluster(cluster_of_machine(host.data(), found), file);
}

// The interfaces of this host, and which address other hosts would be told.
int print_net(const std::string& list, bool json) {
  const std::vector<InterfaceAddress> all = interface_addresses();
  const InterfaceAddress chosen = chosen_address(all, list);
  if (json) {
    Json rows = Json::array();
    for (const InterfaceAddress& one : all) {
      rows.push_back({{"interface", one.interface},
                      {"address", one.address},
                      {"loopback", one.loopback},
                      {"link_local", one.link_local},
                      {"running", one.running},
                      {"admitted", admits(list, one.interface)}});
    }
    std::cout << Json({{"interfaces", rows},
                       {"chosen", {{"interface", chosen.interface}, {"address", chosen.address}}}})
                     .dump(2)
              << '\n';
    return 0;
  }
  std::cout << "interfaces: " << describe(all) << "\nchosen: " << chosen.interface << ' '
            << chosen.address << '\n';
  return 0;
}

int run_devices(const DevicesArguments& arguments, bool json) {
  if (arguments.net) return print_net(arguments.interfaces, json);
  const std::vector<FoundDevice> devices = chosen(find_devices(), arguments.backends);
  if (!arguments.cluster.empty()) write_cluster_file(devices, arguments.cluster);
  if (arguments.routes) {
    print_routes(devices, json);
    return 0;
  }
  const Host host = read_host();
  if (json) {
    print_json(devices, host);
    return 0;
  }
  print_devices(devices);
  print_problems(devices);
  print_host(host);
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, VerbCall& call) {
  CLI::App& command = *app.add_subcommand("devices", "say which accelerators are here");
  command.footer(
      "Examples:\n  hethub devices --cluster cluster.json\n  hethub devices --routes\n"
      "  hethub devices --net --iface ^docker0");
  const auto arguments = std::make_shared<DevicesArguments>();
  command.add_option("--cluster", arguments->cluster, "write what is here as a cluster file");
  command.add_option("--backends", arguments->backends, "only these; default: all")->delimiter(',');
  command.add_flag("--net", arguments->net)
      ->description("say which address ranks on other hosts would be told");
  command.add_flag("--routes", arguments->routes)
      ->description("say how bytes would travel between each two of them, and why not faster");
  command.add_option("--iface", arguments->interfaces, "for --net: eth0,ib0 or all but ^docker0");
  on_chosen(command, call, "devices", arguments, run_devices);
}

}  // namespace hethub
