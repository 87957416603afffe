#include "hethub/comm/tcp/interfaces.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// Bridges and tunnels that often have the same address on every host.
constexpr std::array<std::string_view, 8> kLocalBridges = {"docker", "br-",  "virbr",   "veth",
                                                           "cni",    "cali", "flannel", "lxc"};

bool is_local_bridge(const std::string& interface) {
  return std::any_of(kLocalBridges.begin(), kLocalBridges.end(),
                     [&](std::string_view prefix) { return interface.starts_with(prefix); });
}

bool is_link_local(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  const auto number = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
  return (number >> 16U) == 0xA9FEU;  // 169.254.0.0/16
}

int rank_of(const InterfaceAddress& address) {
  return (is_local_bridge(address.interface) ? 2 : 0) + (address.v6 ? 1 : 0);
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> all;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return all;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    const sockaddr* address = at->ifa_addr;
    if (address == nullptr) continue;
    const bool v6 = address->sa_family == AF_INET6;
    if (!v6 && address->sa_family != AF_INET) continue;
    std::array<char, NI_MAXHOST> host = {};
    const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    all.push_back({.interface = at->ifa_name,
                   .address = host.data(),
                   .v6 = v6,
                   .loopback = (at->ifa_flags & IFF_LOOPBACK) != 0,
                   .link_local = is_link_local(*address),
                   .running = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_RUNNING) != 0});
  }
  ::freeifaddrs(first);
  return all;
}

bool admits(const std::string& list, const std::string& interface) {
  std::string_view rest = list;
  if (rest.empty()) return true;
  const bool excludes = rest.starts_with('^');
  if (excludes) rest.remove_prefix(1);
  bool listed = false;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (name.starts_with('=')) {
      listed = listed || interface == name.substr(1);
    } else if (!name.empty()) {
      listed = listed || interface.starts_with(name);
    }
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return listed != excludes;
}

std::vector<InterfaceAddress> reachable_addresses(const std::vector<InterfaceAddress>& all,
                                                  const std::string& list) {
  std::vector<InterfaceAddress> good;
  for (const InterfaceAddress& one : all) {
    if (one.running && !one.loopback && !one.link_local && !is_loopback(one.address) &&
        admits(list, one.interface)) {
      good.push_back(one);
    }
  }
  std::stable_sort(good.begin(), good.end(), [](const auto& first, const auto& second) {
    return rank_of(first) < rank_of(second);
  });
  return good;
}

std::string describe(const std::vector<InterfaceAddress>& all) {
  std::string names;
  for (const InterfaceAddress& one : all) {
    const std::string_view note = one.loopback     ? " (loopback)"
                                  : one.link_local ? " (link-local)"
                                  : one.running    ? ""
                                                   : " (down)";
    names += text(names.empty() ? "" : ", ", one.interface, ' ', one.address, note);
  }
  return names.empty() ? "no interface with an address" : names;
}

InterfaceAddress chosen_address(const std::vector<InterfaceAddress>& all, const std::string& list) {
  const std::vector<InterfaceAddress> good = reachable_addresses(all, list);
  if (!good.empty()) return good.front();
  throw Error(ErrorCode::kInvalidConfig,
              {.what = list.empty() ? "network interface for the other hosts"
                                    : text("network interface for --iface ", list),
               .found = describe(all),
               .expected = "one that is up, neither loopback nor link-local, and admitted",
               .fix = "name it: --iface eth0, or those to leave out: --iface ^docker0"});
}

InterfaceAddress awaited_address(const std::string& list, Deadline until) {
  for (;;) {
    const std::vector<InterfaceAddress> all = interface_addresses();
    const bool one_may_come = std::any_of(all.begin(), all.end(), [&](const auto& one) {
      return !one.running && !one.loopback && !one.link_local && admits(list, one.interface);
    });
    if (!reachable_addresses(all, list).empty() || !one_may_come ||
        std::chrono::steady_clock::now() >= until) {
      return chosen_address(all, list);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool is_loopback(const std::string& address) {
  in_addr v4 = {};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  in6_addr v6 = {};
  if (::inet_pton(AF_INET6, address.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace hethub
