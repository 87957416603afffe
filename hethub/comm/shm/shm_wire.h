#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hethub/base/descriptor.h"
#include "hethub/comm/wire.h"

namespace hethub {

/// Memory that two ranks of one host share: a ring of bytes for each direction.
class SharedRings {
 public:
  /// New memory that no file names: it lives as long as somebody maps it, so nothing is left
  /// behind by a rank that is killed. Throws kOutOfMemory.
  static SharedRings create(std::int64_t ring_bytes);

  /// Maps memory that another process made with `create`, found as descriptor `number` of process
  /// `pid`. Throws kUnavailable if this process may not, or if the memory is not as stated.
  static SharedRings open(int pid, int number, std::int64_t ring_bytes, std::uint64_t nonce);

  SharedRings(SharedRings&& other) noexcept;
  SharedRings& operator=(SharedRings&& other) noexcept;
  ~SharedRings();

  int descriptor() const { return file_.get(); }
  std::int64_t ring_bytes() const { return ring_bytes_; }
  std::byte* memory() const { return memory_; }

  /// A number by which the two ends know that they mapped the same memory.
  std::uint64_t nonce() const;

 private:
  SharedRings(Descriptor file, std::int64_t ring_bytes);

  Descriptor file_;
  std::int64_t ring_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

/// A wire over shared rings. `socket`, a connected stream socket to the peer, carries no data: a
/// byte on it wakes a peer that sleeps, and its end tells that the peer is gone, however it ended.
/// The peer that made the rings is `first`; exactly one end is. `pulls`: large messages are copied
/// once, by process_vm_readv, where the system lets this process; else through the rings.
std::unique_ptr<Wire> make_shm_wire(SharedRings rings, Descriptor socket, bool first,
                                    bool pulls = true);

}  // namespace hethub
