#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hethub/base/deadline.h"
#include "hethub/base/descriptor.h"
#include "hethub/base/text.h"
#include "hethub/comm/handshake.h"
#include "hethub/comm/rendezvous.h"
#include "hethub/comm/wire.h"

namespace hethub {

// What join_world knows while ranks meet; no part of its interface.
struct Meeting {
  const RendezvousOptions& options;
  Credentials credentials = {};
  Introduction mine = {};
  Deadline deadline = {};
  std::vector<Introduction> table = {};  // of all ranks
  std::vector<Descriptor> sockets = {};  // to the ranks that this one exchanges data with
  std::vector<Descriptor> control = {};  // from rank 0 to all, from all to rank 0

  /// Whether this rank and that one exchange data.
  bool connects(int rank) const {
    if (rank == options.rank || !options.data) return false;
    return !options.pairs ||
           options.pairs(std::min(rank, options.rank), std::max(rank, options.rank));
  }
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

inline std::string name_of_rank(const Meeting& meeting, int rank) {
  const auto& at = meeting.table[static_cast<std::size_t>(rank)];
  return text("rank ", rank, " (host ", text_in(at.host), ")");
}

/// Agrees with each rank of the meeting's sockets on how bytes travel; null where there is none.
std::vector<std::unique_ptr<Wire>> make_wires(Meeting& meeting);

}  // namespace hethub
