#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "hethub/base/deadline.h"
#include "hethub/base/descriptor.h"
#include "hethub/comm/error_text.h"

namespace hethub {

/// The version of everything two ranks say to each other: handshake, frames, tags.
inline constexpr std::uint32_t kProtocolVersion = 3;

/// What a rank says of itself. Fixed in size, so that no length comes from a peer.
struct Introduction {
  std::int32_t rank = 0;
  std::int32_t world_size = 0;
  std::int32_t port = 0;  ///< where it listens for the other ranks
  std::int32_t pid = 0;
  std::int32_t takes_shared_memory = 0;
  std::int32_t uses_ucx = 0;  ///< between hosts; 0: tcp
  std::array<char, 72> plan_hash = {};
  std::array<char, 64> address = {};        ///< of the interface it listens on, in numbers
  std::array<char, 256> host = {};          ///< the host's name, for messages
  std::array<char, 128> memory_space = {};  ///< equal for two ranks that can share memory
};

/// What both ends of a connection must have in common.
struct Credentials {
  std::string secret = {};
  std::uint32_t version = kProtocolVersion;
};

/// Copies text into a field, cut to fit with its terminating zero.
template <std::size_t N>
void set_field(std::array<char, N>& field, const std::string& value) {
  field = {};
  value.copy(field.data(), N - 1);
}

/// The text of a field, fit to be shown, whatever bytes a peer put there.
template <std::size_t N>
std::string text_in(const std::array<char, N>& field) {
  std::string value(field.data(), N);
  return printable(value.substr(0, value.find('\0')));
}

/// A peer that has shown that it knows the secret.
struct MetPeer {
  Descriptor socket = {};
  Introduction introduction = {};
};

/// Answers at `listener` until `met` has each of `awaited`, or the deadline. Peers are held
/// to `mine`: same world size and plan. Connections that do not authenticate in five seconds, or
/// say what makes no sense, are refused and closed; at most 1024 may be undecided at once, or as
/// many as the system lets this process open. The oldest makes room for the next.
///
/// Throws kTimeout naming the ranks that did not come and the last refusal; kInvalidPlan if a peer
/// that knows the secret has another plan or world size. `met` then has those that came.
void answer_peers(int listener, const Credentials& credentials, const Introduction& mine,
                  const std::set<int>& awaited, Deadline deadline, std::map<int, MetPeer>& met);

/// The caller's side, on a new connection; `whom` names the other end in messages. Throws
/// kInvalidConfig if this rank, its secret or its version is refused or the other end does not know
/// the secret, kInvalidPlan if it has another plan, kUnavailable if the connection ends before.
void introduce(int socket, const Credentials& credentials, const Introduction& mine,
               const std::string& whom, Deadline deadline);

}  // namespace hethub
