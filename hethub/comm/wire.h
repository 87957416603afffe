#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hethub {

/// Memory of the peer's process, as the peer addresses it.
struct PeerMemory {
  std::uint64_t data = 0;   ///< 0: it offers none
  std::uint64_t stamp = 0;  ///< where eight bytes say which offer the data belong to
};

/// The seam to a transport: an ordered stream of bytes to and from one peer, which never blocks.
/// It knows nothing of messages, tensors or deadlines; those are the Messenger's, above all wires.
/// Implementations: comm/shm (ranks of one host), comm/tcp, comm/plugin (transports
/// in shared objects, such as comm/ucx).
///
/// Threads: one at a time; the Messenger holds its lock around every call.
class Wire {
 public:
  virtual ~Wire() = default;

  virtual std::string_view name() const = 0;

  /// Takes as much as there is room for, `first` before `second`; returns the bytes taken.
  virtual std::size_t write(std::span<const std::byte> first,
                            std::span<const std::byte> second) = 0;

  /// Gives what has arrived, up to the size of `to`; returns the bytes given.
  virtual std::size_t read(std::span<std::byte> to) = 0;

  /// Whether `pull` may work: both ends are processes of one system.
  virtual bool can_pull() const { return false; }

  /// Copies memory of the peer's process straight to `to`, then the word at `stamp`, which says
  /// whether the memory was still as promised after the copy. False if the system does not let this
  /// process, or the peer is gone; can_pull() is then false.
  virtual bool pull(const PeerMemory& /*from*/, std::span<std::byte> /*to*/,
                    std::uint64_t& /*stamp*/) {
    return false;
  }

  /// Ends a burst of writes and reads: wakes a peer that sleeps until there is data or room.
  virtual void flush() = 0;

  /// While attended, this side polls, so the peer need not wake it. Whether that makes a
  /// difference: then the caller polls once more after it stops attending.
  virtual bool attend(bool attended) = 0;

  /// A descriptor that epoll reports (edge-triggered) when there is data or room or an end.
  virtual int descriptor() const = 0;

  /// Called when epoll has reported the descriptor.
  virtual void awoken() = 0;

  /// Empty while the peer may still send; afterwards why not. What had arrived can still be read.
  virtual std::string_view end() const = 0;
};

}  // namespace hethub
