#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/comm/meeting.h"
#include "hethub/comm/plugin/transport.h"
#include "hethub/comm/shm/shm_wire.h"
#include "hethub/comm/tcp/socket.h"
#include "hethub/comm/tcp/tcp_wire.h"

// What the connections between ranks become: wires over shared memory, or over the sockets.

namespace hethub {
namespace {

// What the lower rank of a pair offers to the higher.
struct RingsOffer {
  std::int64_t ring_bytes = 0;
  std::uint64_t nonce = 0;
  std::int32_t descriptor = -1;  // -1: none could be made
  std::int32_t reserved = 0;
};

bool may_share(const Meeting& meeting, int rank) {
  const Introduction& peer = meeting.table[static_cast<std::size_t>(rank)];
  return meeting.connects(rank) && meeting.mine.takes_shared_memory != 0 &&
         peer.takes_shared_memory != 0 &&
         text_in(peer.memory_space) == text_in(meeting.mine.memory_space);
}

// The rings of all pairs of a host come to so much memory as those of 8 ranks, in whole pages.
std::int64_t ring_bytes(const Meeting& meeting) {
  constexpr std::int64_t kPage = 4096;
  std::int64_t here = 1;
  for (int rank = 0; rank < meeting.options.world_size; ++rank) {
    if (may_share(meeting, rank)) ++here;
  }
  if (here <= 8) return meeting.options.ring_bytes;
  const std::int64_t share = meeting.options.ring_bytes * 8 / here;
  return std::max((share + kPage - 1) / kPage * kPage, 16 * kPage);
}

std::optional<SharedRings> make_rings(std::int64_t bytes) {
  try {
    return SharedRings::create(bytes);
  } catch (const Error&) {
    return std::nullopt;  // the pair then takes tcp
  }
}

std::optional<SharedRings> open_rings(const RingsOffer& offer, int pid) {
  constexpr std::int64_t kMostRingBytes = std::int64_t{1} << 32;
  if (offer.descriptor < 0 || offer.ring_bytes < 4096 || offer.ring_bytes > kMostRingBytes) {
    return std::nullopt;
  }
  try {
    return SharedRings::open(pid, offer.descriptor, offer.ring_bytes, offer.nonce);
  } catch (const Error&) {
    return std::nullopt;  // the pair then takes tcp
  }
}

// All offers are sent before any is awaited, so that no two ranks wait for each other.
std::vector<std::optional<SharedRings>> share_memory(const Meeting& meeting) {
  const int mine = meeting.options.rank;
  const int world_size = meeting.options.world_size;
  std::vector<std::optional<SharedRings>> rings(static_cast<std::size_t>(world_size));
  const auto socket = [&](int rank) {
    return meeting.sockets[static_cast<std::size_t>(rank)].get();
  };
  const std::int64_t bytes = ring_bytes(meeting);
  for (int rank = mine + 1; rank < world_size; ++rank) {
    if (!may_share(meeting, rank)) continue;
    auto& made = rings[static_cast<std::size_t>(rank)];
    made = make_rings(bytes);
    RingsOffer offer;
    if (made) {
      offer = {.ring_bytes = made->ring_bytes(),
               .nonce = made->nonce(),
               .descriptor = made->descriptor()};
    }
    send_all(socket(rank), bytes_of(offer), meeting.deadline, name_of_rank(meeting, rank));
  }
  for (int rank = 0; rank < mine; ++rank) {
    if (!may_share(meeting, rank)) continue;
    RingsOffer offer;
    recv_all(socket(rank), std::as_writable_bytes(std::span(&offer, 1)), meeting.deadline,
             name_of_rank(meeting, rank));
    auto& opened = rings[static_cast<std::size_t>(rank)];
    opened = open_rings(offer, meeting.table[static_cast<std::size_t>(rank)].pid);
    const std::byte taken{static_cast<unsigned char>(opened ? 1 : 0)};
    send_all(socket(rank), bytes_of(taken), meeting.deadline, name_of_rank(meeting, rank));
  }
  for (int rank = mine + 1; rank < world_size; ++rank) {
    if (!may_share(meeting, rank)) continue;
    std::byte taken{0};
    recv_all(socket(rank), std::span(&taken, 1), meeting.deadline, name_of_rank(meeting, rank));
    if (taken == std::byte{0}) rings[static_cast<std::size_t>(rank)].reset();
  }
  return rings;
}

// ---- between hosts ------------------------------------------------------------------------------

const char* name_of_choice(std::int32_t uses_ucx) { return uses_ucx != 0 ? "ucx" : "tcp"; }

// Ranks that chose differently would wait for each other's words.
void check_choices(const Meeting& meeting) {
  for (int rank = 0; rank < meeting.options.world_size; ++rank) {
    const Introduction& peer = meeting.table[static_cast<std::size_t>(rank)];
    require(peer.uses_ucx == meeting.mine.uses_ucx, [&] {
      return ErrorParts{
          .what = text("transport between ", name_of_rank(meeting, meeting.options.rank), " and ",
                       name_of_rank(meeting, rank)),
          .found = text(name_of_choice(meeting.mine.uses_ucx), " here, ",
                        name_of_choice(peer.uses_ucx), " there"),
          .expected = "one for all ranks",
          .fix = "give all ranks the same --transport"};
    });
  }
}

// A peer's address in the transport.
std::vector<std::byte> received_address(const Meeting& meeting, int rank) {
  constexpr std::uint64_t kMostAddressBytes = 65536;
  const int socket = meeting.sockets[static_cast<std::size_t>(rank)].get();
  const std::string peer = name_of_rank(meeting, rank);
  std::uint64_t bytes = 0;
  recv_all(socket, std::as_writable_bytes(std::span(&bytes, 1)), meeting.deadline, peer);
  if (bytes == 0 || bytes > kMostAddressBytes) {
    throw Error(ErrorCode::kUnavailable, {.what = text("transport ucx: the address of ", peer),
                                          .found = text(bytes, " bytes"),
                                          .expected = text("1 to ", kMostAddressBytes),
                                          .fix = "run the same hethub on all hosts"});
  }
  std::vector<std::byte> address(bytes);
  recv_all(socket, address, meeting.deadline, peer);
  return address;
}

// Wires over the plug-in's transport to all ranks that `wanted` holds for. As with shared memory,
// all addresses are sent before any is awaited.
template <typename Wanted>
void connect_by_plugin(Meeting& meeting, const Wanted& wanted,
                       std::vector<std::unique_ptr<Wire>>& wires) {
  const HethubTransport& transport = load_transport("ucx");
  std::map<int, TransportEnd> ends;
  for (int rank = 0; rank < meeting.options.world_size; ++rank) {
    if (!wanted(rank)) continue;
    const TransportEnd& end = ends.emplace(rank, TransportEnd(transport)).first->second;
    const std::uint64_t bytes = end.address().size();
    const int socket = meeting.sockets[static_cast<std::size_t>(rank)].get();
    send_all(socket, bytes_of(bytes), meeting.deadline, name_of_rank(meeting, rank));
    send_all(socket, end.address(), meeting.deadline, name_of_rank(meeting, rank));
  }
  for (auto& [rank, end] : ends) {
    const auto at = static_cast<std::size_t>(rank);
    const std::vector<std::byte> address = received_address(meeting, rank);
    wires[at] = std::move(end).connect(address, std::move(meeting.sockets[at]));
  }
}

}  // namespace

std::vector<std::unique_ptr<Wire>> make_wires(Meeting& meeting) {
  check_choices(meeting);
  std::vector<std::optional<SharedRings>> rings = share_memory(meeting);
  std::vector<std::unique_ptr<Wire>> wires(rings.size());
  const auto shares = [&](int rank) { return rings[static_cast<std::size_t>(rank)].has_value(); };
  for (int rank = 0; rank < meeting.options.world_size; ++rank) {
    if (!meeting.connects(rank)) continue;
    tune_socket(meeting.sockets[static_cast<std::size_t>(rank)].get(),
                meeting.options.peer_timeout_s);
  }
  if (meeting.options.transports.ucx) {
    connect_by_plugin(
        meeting, [&](int rank) { return meeting.connects(rank) && !shares(rank); }, wires);
  }
  for (int rank = 0; rank < meeting.options.world_size; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (!meeting.connects(rank) || wires[at] != nullptr) continue;
    Descriptor socket = std::move(meeting.sockets[at]);
    wires[at] = shares(rank) ? make_shm_wire(std::move(*rings[at]), std::move(socket),
                                             meeting.options.rank < rank)
                             : make_tcp_wire(std::move(socket));
  }
  return wires;
}

}  // namespace hethub
