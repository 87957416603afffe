#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hethub/comm/messenger.h"
#include "hethub/comm/transports.h"

namespace hethub {

/// How a rank finds the others.
struct RendezvousOptions {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = {};  ///< where rank 0 listens; any name or address of its host
  int master_port = 0;
  /// Whether the ranks are on several hosts; unset: they are if the master's address is no loopback
  /// address. Then no rank listens at a loopback or link-local address.
  std::optional<bool> several_hosts = {};
  std::string interfaces = {};  ///< between hosts, only these (comm/tcp/interfaces.h); empty: all
  std::string source = {};      ///< what said all this, for people
  std::string secret = {};      ///< shared by all ranks, known to nobody else
  std::string plan_hash = {};   ///< all ranks must have the same; at most 64 characters
  double timeout_s = 120;       ///< until all ranks have met
  double peer_timeout_s = 30;   ///< until a peer that cannot be reached is given up
  bool data = true;             ///< false: control connections only; no message can be sent
  /// Which pairs exchange data, the lower rank first; alike on all ranks. Empty: all do. A message
  /// to another rank is then refused. In a large job each rank needs few of the others.
  std::function<bool(int low, int high)> pairs = {};
  Transports transports = {};  ///< how data travel; between hosts alike on all ranks
  /// Shared memory in each direction of a pair; less where a host has more than 8 ranks.
  std::int64_t ring_bytes = 1 << 20;
  int messages = 1024;  ///< most under way at once
  /// Told about ranks that are silent and names that are not known yet, in a sentence for people;
  /// on a thread of its own.
  std::function<void(const std::string& sentence)> on_notice = {};
};

/// Meets the other ranks. The master's name may become known meanwhile. Rank 0 listens at the
/// master's address and port, all others dial it, and then each other; the first connection to rank
/// 0 stays as the control connection (control.h). Every connection is authenticated both ways by
/// HMAC-SHA256 of random challenges under the secret, and both ends must run the same protocol and
/// plan. Connections that do not know the secret are refused and do not hold up the others.
///
/// Throws kTimeout naming the ranks that did not come, kUnavailable if the port is in use (naming
/// the process, if it may be seen), kInvalidConfig if this rank's secret or version is refused,
/// kInvalidPlan if plans or world sizes differ.
std::unique_ptr<Messenger> join_world(const RendezvousOptions& options);

}  // namespace hethub
