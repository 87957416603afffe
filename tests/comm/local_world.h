#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hethub/comm/messenger.h"
#include "hethub/comm/plugin/transport.h"
#include "hethub/comm/shm/shm_wire.h"
#include "hethub/comm/tags.h"
#include "hethub/comm/tcp/socket.h"
#include "hethub/comm/tcp/tcp_wire.h"

namespace hethub {

/// The transports that every test of messages runs over. The rings are small, so that messages
/// wrap around them many times; kRings is shared memory where the system lets no process read
/// another's memory.
enum class Transport { kShm, kRings, kTcp, kUcx };

inline std::string name_of(Transport transport) {
  if (transport == Transport::kRings) return "rings";
  if (transport == Transport::kUcx) return "ucx";
  return transport == Transport::kShm ? "shm" : "tcp";
}

/// Those of the list that are here: ucx is where its plug-in was built.
inline std::vector<Transport> present(std::initializer_list<Transport> wanted) {
  std::vector<Transport> kept;
  for (const Transport transport : wanted) {
    if (transport != Transport::kUcx || !transport_file("ucx").empty()) kept.push_back(transport);
  }
  return kept;
}

struct SocketPair {
  Descriptor first = {};
  Descriptor second = {};
};

inline SocketPair tcp_pair() {
  const Descriptor listener = listen_at("127.0.0.1", 0);
  SocketPair pair;
  pair.first = connect_to("127.0.0.1", local_address(listener.get()).port, after_seconds(10));
  for (pair.second = accept_from(listener.get()); !pair.second.valid();) {
    const int number = listener.get();
    wait_readable(std::span(&number, 1), after_seconds(10));
    pair.second = accept_from(listener.get());
  }
  tune_socket(pair.first.get(), 5);
  tune_socket(pair.second.get(), 5);
  return pair;
}

struct WirePair {
  std::unique_ptr<Wire> first = {};
  std::unique_ptr<Wire> second = {};
};

inline WirePair wire_pair(Transport transport, std::int64_t ring_bytes = 4096) {
  SocketPair sockets = tcp_pair();
  if (transport == Transport::kTcp) {
    return {make_tcp_wire(std::move(sockets.first)), make_tcp_wire(std::move(sockets.second))};
  }
  if (transport == Transport::kUcx) {
    const HethubTransport& ucx = load_transport("ucx");
    TransportEnd first(ucx);
    TransportEnd second(ucx);
    const std::span<const std::byte> address = first.address();
    const std::vector<std::byte> to_first(address.begin(), address.end());
    auto wire = std::move(first).connect(second.address(), std::move(sockets.first));
    return {std::move(wire), std::move(second).connect(to_first, std::move(sockets.second))};
  }
  SharedRings rings = SharedRings::create(ring_bytes);
  SharedRings opened = SharedRings::open(::getpid(), rings.descriptor(), ring_bytes, rings.nonce());
  const bool pulls = transport == Transport::kShm;
  return {make_shm_wire(std::move(rings), std::move(sockets.first), true, pulls),
          make_shm_wire(std::move(opened), std::move(sockets.second), false, pulls)};
}

/// All ranks of a world in this process, each with its own messenger.
inline std::vector<std::unique_ptr<Messenger>> local_world(int world_size, Transport transport,
                                                           std::int64_t ring_bytes = 4096) {
  std::vector<std::vector<std::unique_ptr<Wire>>> wires(world_size);
  for (auto& row : wires) {
    row.resize(world_size);
  }
  for (int low = 0; low < world_size; ++low) {
    for (int high = low + 1; high < world_size; ++high) {
      WirePair pair = wire_pair(transport, ring_bytes);
      wires[low][high] = std::move(pair.first);
      wires[high][low] = std::move(pair.second);
    }
  }
  std::vector<std::unique_ptr<Messenger>> world;
  for (int rank = 0; rank < world_size; ++rank) {
    MessengerOptions options{.rank = rank, .describe = describe_tag};
    for (int other = 0; other < world_size; ++other) {
      options.hosts.push_back("node" + std::to_string(other));
    }
    world.push_back(std::make_unique<Messenger>(std::move(options), std::move(wires[rank])));
  }
  return world;
}

/// Runs `body(rank)` of all ranks at once, each on a thread of its own.
inline void on_all_ranks(int world_size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] { body(rank); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace hethub
