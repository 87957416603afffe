#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hethub/base/deadline.h"
#include "hethub/base/descriptor.h"

namespace hethub {

/// One end of a connection.
struct SocketAddress {
  std::string host = {};  ///< in numbers
  int port = 0;
};

/// Waits until the host's name has an address: a new host's may not be known everywhere yet. Tells
/// `on_notice`, if there is one, once that it waits. Throws kUnavailable at the deadline.
void wait_for_name(const std::string& host, Deadline deadline,
                   const std::function<void(const std::string&)>& on_notice);

/// Listens at `host` (a name or address of this host) and `port`; 0 lets the system choose. Throws
/// kUnavailable if the port is in use, naming the process that listens there if it may be seen.
Descriptor listen_at(const std::string& host, int port);

/// The addresses of a name, in numbers. Throws kUnavailable if it has none.
std::vector<std::string> addresses_of(const std::string& host);

/// How to reach a listener.
struct Dialling {
  std::vector<std::string> hosts = {};  ///< tried in turn
  int port = 0;
  std::vector<std::string> from = {};  ///< own addresses to dial from; empty: the system chooses
  std::string note = {};               ///< what to add to the error
};

/// Connects, trying again while nobody listens. Throws kTimeout naming host and port.
Descriptor connect_to(const Dialling& way, Deadline deadline);
Descriptor connect_to(const std::string& host, int port, Deadline deadline);

/// The next connection to a listener, or an invalid descriptor if none has come.
Descriptor accept_from(int listener);

SocketAddress local_address(int socket);
SocketAddress peer_address(int socket);

/// Sends small messages at once, and notices a peer that cannot be reached for `peer_timeout_s`
/// even when there is nothing to send.
void tune_socket(int socket, double peer_timeout_s);

/// Transfers all bytes. Throw kTimeout, or kUnavailable if the peer ends; `what` is for messages.
void send_all(int socket, std::span<const std::byte> from, Deadline deadline,
              const std::string& what);
void recv_all(int socket, std::span<std::byte> to, Deadline deadline, const std::string& what);

/// Waits until one of the sockets can be read or accepted from, or the deadline.
void wait_readable(std::span<const int> sockets, Deadline deadline);

/// A port of 127.0.0.1 that nobody uses at this moment.
int free_port();

}  // namespace hethub
