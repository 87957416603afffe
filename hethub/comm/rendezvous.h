#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "hethub/comm/messenger.h"

namespace hethub {

/// How a rank finds the others.
struct RendezvousOptions {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = {};  ///< where rank 0 listens; any name or address of its host
  int master_port = 0;
  std::string secret = {};            ///< shared by all ranks, known to nobody else
  std::string plan_hash = {};         ///< all ranks must have the same; at most 64 characters
  double timeout_s = 120;             ///< until all ranks have met
  double peer_timeout_s = 30;         ///< until a peer that cannot be reached is given up
  bool force_tcp = false;             ///< no shared memory, even between ranks of one host
  std::int64_t ring_bytes = 1 << 20;  ///< shared memory in each direction of a pair
  int messages = 1024;                ///< most under way at once
};

/// A variable of the environment, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's environment.
Environment process_environment();

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (torchrun's names), and
/// HETHUB_SECRET or HETHUB_SECRET_FILE. With none of them set, a world of one rank. Throws
/// kInvalidConfig naming the variables if some are set and others not, or contradict each other.
RendezvousOptions rendezvous_from_environment(const Environment& environment);

/// Meets the other ranks: rank 0 listens at the master's address and port, all others dial it, and
/// then each other. Every connection is authenticated both ways by HMAC-SHA256 of random challenges
/// under the secret, and both ends must run the same protocol and plan. Connections that do not
/// know the secret are refused and do not hold up the others.
///
/// Throws kTimeout naming the ranks that did not come, kUnavailable if the port is in use (naming
/// the process, if it may be seen), kInvalidConfig if this rank's secret or version is refused,
/// kInvalidPlan if plans or world sizes differ.
std::unique_ptr<Messenger> join_world(const RendezvousOptions& options);

}  // namespace hethub
