#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/host_pages.h"
#include "hethub/collective/algorithm.h"
#include "hethub/comm/device_port.h"
#include "hethub/comm/messenger.h"
#include "hethub/comm/tags.h"

namespace hethub {

/// A collective made ready to run any number of times by one member of a group: its steps, where
/// its chunks lie, and its additions prepared on the device. Made by Communicator::prepare.
class PreparedCollective {
 public:
  const std::string& name() const { return name_; }

  /// What `run` must be given.
  std::int64_t data_bytes() const { return data_bytes_; }
  std::int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  friend class Communicator;
  struct SentChunk {
    Slot slot = {};
    Handle handle = {};
    bool under_way = false;
  };

  std::string name_ = {};
  std::vector<Step> steps_ = {};  // of this member
  std::optional<SlotLayout> layout_ = {};
  std::int64_t element_bytes_ = 0;
  std::int64_t message_bytes_ = 0;  // the largest
  std::int64_t data_bytes_ = 0;
  std::int64_t scratch_bytes_ = 0;
  std::uint64_t check_ = 0;
  std::vector<PreparedOp*> additions_ = {};  // for each step; null unless it reduces
  std::vector<std::unique_ptr<PreparedOp>> owned_additions_ = {};
  std::unique_ptr<Event> event_ = {};
  HostPages staging_ = {};  // two chunks to send, one that arrives
  std::vector<SentChunk> sent_ = {};
};

/// What one member needs to talk to its group. The port outlives the communicator.
struct CommunicatorOptions {
  DevicePort* port = nullptr;
  std::vector<int> ranks = {};  ///< world ranks of the members, in group order; any subset
  int id = 0;                   ///< the same on all members, of no other group; below 32768
};

/// One group of ranks, as seen by one member. The same calls work whether or not the members'
/// accelerators are alike. The members are spoken of by their positions in `ranks`.
///
/// Every member makes the same collective calls in the same order; a member that does not is found
/// and named. Threads: one, that of the port's queue.
class Communicator {
 public:
  /// Throws kInvalidArgument if this rank is not one of `ranks`, or one is named twice.
  explicit Communicator(CommunicatorOptions options);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  int world_rank(int rank) const { return options_.ranks.at(static_cast<std::size_t>(rank)); }

  /// Point to point; see DevicePort. Messages of one tag keep their order.
  Request send(int peer, std::uint64_t tag, View from) const;
  Request recv(int peer, std::uint64_t tag, View to) const;

  /// Makes a collective ready: `algorithm` for a group of this size, on `table` chunks of `dtype`.
  std::unique_ptr<PreparedCollective> prepare(const CollectiveAlgorithm& algorithm,
                                              const ChunkTable& table, DType dtype);

  /// Takes this member's steps. Work queued before it makes `data`; work queued afterwards sees
  /// the result. `scratch` has collective.scratch_bytes(). Returns when no message is under way;
  /// the last additions may still be queued. Allocates nothing.
  void run(PreparedCollective& collective, View data, View scratch, Deadline deadline);

  /// Waits until every member has called it.
  void barrier(Deadline deadline);

  /// Sums over the members, added in the order of their positions, so with equal bits each time.
  void all_reduce_host(std::span<double> values, Deadline deadline);

  /// `all` becomes the members' `mine`, in order; every member gives as many bytes.
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline);

  Messenger& messenger() const { return options_.port->messenger(); }

 private:
  struct Running;
  Operation next_operation(std::string_view name);
  void prepare_additions(PreparedCollective& made, DType dtype) const;
  void take_step(Running& running, std::size_t index) const;
  View view_of(const Running& running, Slot slot) const;
  void wait_for_device(Running& running) const;
  void finish_sends(Running& running, Slot slot) const;
  void finish_sends(Running& running) const;
  void send_chunk(Running& running, const Step& step) const;
  void recv_chunk(Running& running, const Step& step) const;
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, Operation operation,
                std::uint64_t check, Deadline deadline);

  CommunicatorOptions options_;
  int rank_ = -1;
  std::int64_t number_ = 0;
  std::unique_ptr<PreparedCollective> barrier_;
  CollectiveAlgorithm host_gather_;
  std::vector<Handle> handles_;
  std::vector<double> gathered_;
};

}  // namespace hethub
