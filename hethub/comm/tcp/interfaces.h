#pragma once

#include <string>
#include <vector>

#include "hethub/base/deadline.h"

namespace hethub {

/// An address of a network interface of this host.
struct InterfaceAddress {
  std::string interface = {};
  std::string address = {};  ///< in numbers
  bool v6 = false;
  bool loopback = false;
  bool link_local = false;  ///< only its own cable knows it
  bool running = false;     ///< up, with a carrier
};

/// Those of this host, in the system's order.
std::vector<InterfaceAddress> interface_addresses();

/// Whether a list of interfaces admits one: "eth0,ib" are those that begin so, "=eth0" is that one
/// alone, "^docker,lo" are all but those; an empty list admits all.
bool admits(const std::string& list, const std::string& interface);

/// The addresses by which other hosts may reach this one, best first: those of network cards, then
/// those of bridges and tunnels that only this host may know (docker0, virbr0, ...); of one
/// interface IPv4 before IPv6. Loopback and link-local addresses are none.
std::vector<InterfaceAddress> reachable_addresses(const std::vector<InterfaceAddress>& all,
                                                  const std::string& list);

/// "lo 127.0.0.1 (loopback), eth0 10.0.0.2", for messages.
std::string describe(const std::vector<InterfaceAddress>& all);

/// The first of reachable_addresses(). Throws kInvalidConfig naming the interfaces there are.
InterfaceAddress chosen_address(const std::vector<InterfaceAddress>& all, const std::string& list);

/// The same of this host now, or as soon as one of its cards that would do is up: they come up
/// slowly when a host starts. Throws as chosen_address if there is none, or none by `until`.
InterfaceAddress awaited_address(const std::string& list, Deadline until);

/// Whether an address in numbers is in 127.0.0.0/8 or ::1.
bool is_loopback(const std::string& address);

}  // namespace hethub
