#include "hethub/comm/tcp/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "hethub/base/error.h"
#include "hethub/comm/tcp/port_owner.h"

namespace hethub {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Addresses of families that the host has; of any if it has none but loopback.
AddressList resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int failed = 0;
  for (const int flags : {AI_ADDRCONFIG, 0}) {
    hints.ai_flags = flags;
    failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (failed == 0) break;
  }
  if (failed != 0) {
    throw Error(ErrorCode::kUnavailable, {.what = text("address of host '", host, "'"),
                                          .found = ::gai_strerror(failed),
                                          .expected = "a name or address that this host knows",
                                          .fix = "check MASTER_ADDR and the name service"});
  }
  return {found, &::freeaddrinfo};
}

int milliseconds_to(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(ms + 1, 0, 3'600'000));
}

bool expired(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

bool wait_for(int socket, short events, Deadline deadline) {
  pollfd polled = {.fd = socket, .events = events, .revents = 0};
  while (!expired(deadline)) {
    if (::poll(&polled, 1, milliseconds_to(deadline)) > 0) return true;
  }
  return false;
}

[[noreturn]] void throw_timeout(const std::string& what, std::size_t done, std::size_t all) {
  throw Error(ErrorCode::kTimeout, {.what = what,
                                    .found = text(done, " of ", all, " bytes at the deadline"),
                                    .expected = "all of them",
                                    .fix = "see whether the other rank still runs"});
}

[[noreturn]] void throw_ended(const std::string& what, const char* why) {
  throw Error(ErrorCode::kUnavailable, {.what = what,
                                        .found = why,
                                        .expected = "a connection that stays open",
                                        .fix = "see the output of the other rank"});
}

SocketAddress address_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {.host = host, .port = std::atoi(port)};
}

// Binds a socket to the first own address of its family, if any are given.
bool bind_to_one(int socket, int family, const std::vector<std::string>& own) {
  if (own.empty()) return true;
  return std::any_of(own.begin(), own.end(), [&](const std::string& host) {
    const AddressList address = resolve(host, 0);
    return address->ai_family == family &&
           ::bind(socket, address->ai_addr, address->ai_addrlen) == 0;
  });
}

// One attempt; the error number, or 0.
int try_connect(const addrinfo& address, const std::vector<std::string>& own, Deadline deadline,
                Descriptor& made) {
  Descriptor socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno;
  if (!bind_to_one(socket.get(), address.ai_family, own)) return EADDRNOTAVAIL;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!wait_for(socket.get(), POLLOUT, deadline)) return ETIMEDOUT;
    int failed = 0;
    socklen_t size = sizeof failed;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) return failed;
  }
  // A socket that dials a port of its own host may meet itself.
  const SocketAddress here = local_address(socket.get());
  const SocketAddress there = peer_address(socket.get());
  if (here.port == there.port && here.host == there.host) return ECONNREFUSED;
  made = std::move(socket);
  return 0;
}

}  // namespace

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> all;
  const AddressList addresses = resolve(host, 0);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    sockaddr_storage address = {};
    std::memcpy(&address, at->ai_addr, at->ai_addrlen);
    all.push_back(address_of(address, at->ai_addrlen).host);
  }
  return all;
}

void wait_for_name(const std::string& host, Deadline deadline,
                   const std::function<void(const std::string&)>& on_notice) {
  constexpr auto kPause = std::chrono::milliseconds(200);
  for (bool told = false;; told = true) {
    try {
      resolve(host, 0);
      return;
    } catch (const Error&) {
      if (expired(deadline)) throw;
    }
    if (!told && on_notice) {
      on_notice(text("host '", host, "' has no address yet; it is asked for until the deadline"));
    }
    std::this_thread::sleep_until(std::min(deadline, std::chrono::steady_clock::now() + kPause));
  }
}

Descriptor listen_at(const std::string& host, int port) {
  const AddressList addresses = resolve(host, port);
  Descriptor socket(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), addresses->ai_addr, addresses->ai_addrlen) == 0 &&
      ::listen(socket.get(), SOMAXCONN) == 0) {
    return socket;
  }
  const int failed = errno;
  throw Error(ErrorCode::kUnavailable,
              {.what = text("port ", port, " on ", host),
               .found = failed == EADDRINUSE ? text("in use by ", owner_of_port(port))
                                             : std::string(std::strerror(failed)),
               .expected = "a port of this host that is free",
               .fix = failed == EADDRINUSE
                          ? "end that process, or choose another port (MASTER_PORT, --port)"
                          : "set MASTER_ADDR to an address of the host of rank 0"});
}

Descriptor connect_to(const Dialling& way, Deadline deadline) {
  Descriptor made;
  int failed = ETIMEDOUT;
  for (auto pause = std::chrono::milliseconds(5); !expired(deadline);
       pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    for (const std::string& host : way.hosts) {
      const AddressList addresses = resolve(host, way.port);
      for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
        failed = try_connect(*at, way.from, deadline, made);
        if (failed == 0) return made;
      }
    }
    std::this_thread::sleep_for(pause);
  }
  throw Error(ErrorCode::kTimeout,
              {.what = text("connecting to ", way.hosts.front(), " port ", way.port),
               .found = text(std::strerror(failed), way.note),
               .expected = "a rank that listens there before the deadline",
               .fix = "see whether that rank runs, and whether MASTER_ADDR and "
                      "MASTER_PORT are those of rank 0"});
}

Descriptor connect_to(const std::string& host, int port, Deadline deadline) {
  return connect_to({.hosts = {host}, .port = port}, deadline);
}

Descriptor accept_from(int listener) {
  return Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

SocketAddress local_address(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address_of(address, size);
}

SocketAddress peer_address(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address_of(address, size);
}

void tune_socket(int socket, double peer_timeout_s) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  const int seconds = std::max(1, static_cast<int>(peer_timeout_s));
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(1000 * peer_timeout_s));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 3));
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void send_all(int socket, std::span<const std::byte> from, Deadline deadline,
              const std::string& what) {
  std::size_t done = 0;
  while (done < from.size()) {
    const ssize_t taken =
        ::send(socket, from.data() + done, from.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken > 0) {
      done += static_cast<std::size_t>(taken);
    } else if (errno != EAGAIN && errno != EINTR) {
      throw_ended(what, std::strerror(errno));
    } else if (!wait_for(socket, POLLOUT, deadline)) {
      throw_timeout(what, done, from.size());
    }
  }
}

void recv_all(int socket, std::span<std::byte> to, Deadline deadline, const std::string& what) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t given = ::recv(socket, to.data() + done, to.size() - done, MSG_DONTWAIT);
    if (given > 0) {
      done += static_cast<std::size_t>(given);
    } else if (given == 0) {
      throw_ended(what, "connection closed");
    } else if (errno != EAGAIN && errno != EINTR) {
      throw_ended(what, std::strerror(errno));
    } else if (!wait_for(socket, POLLIN, deadline)) {
      throw_timeout(what, done, to.size());
    }
  }
}

void wait_readable(std::span<const int> sockets, Deadline deadline) {
  std::vector<pollfd> polled;
  for (const int socket : sockets) {
    polled.push_back({.fd = socket, .events = POLLIN, .revents = 0});
  }
  ::poll(polled.data(), polled.size(), milliseconds_to(deadline));
}

int free_port() { return local_address(listen_at("127.0.0.1", 0).get()).port; }

}  // namespace hethub
