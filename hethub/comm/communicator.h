#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hethub/base/dtype.h"
#include "hethub/base/reduction.h"
#include "hethub/collective/choice.h"
#include "hethub/collective/interpreter.h"
#include "hethub/comm/device_port.h"
#include "hethub/comm/messenger.h"
#include "hethub/comm/prepared_collective.h"
#include "hethub/comm/request.h"
#include "hethub/comm/tags.h"

namespace hethub {

/// What one member needs to talk to its group. The port outlives the communicator.
struct CommunicatorOptions {
  DevicePort* port = nullptr;
  std::vector<int> ranks = {};  ///< world ranks of the members, in group order; any subset
  int id = 0;                   ///< the same on all members, of no other group; below 32768
  /// Which algorithm serves which call. All members must have the same table and parts: they
  /// compare hashes before the first choice.
  ChoiceTable choices = default_choices();
  /// Positions of the members of one kind and node, each member in one part; empty: all are alike.
  std::vector<std::vector<int>> parts = {};
  double agree_timeout_s = 60;  ///< most that the others may be late at the first choice
};

/// A collective of any kind, without its memory. All members pass the same, but for an all-to-all's
/// table.
struct Collective {
  CollectiveOp op = CollectiveOp::kAllReduce;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;  ///< where ranks add
  std::int64_t count = 0;                 ///< elements of all chunks, cut evenly; or:
  ChunkTable table = {};  ///< of each chunk: one a member, or for an all-to-all one a pair
  int root = 0;           ///< where the op has one
};

/// A message of a batch.
struct PointToPoint {
  bool sends = false;
  int peer = 0;  ///< a position in the group
  std::uint64_t tag = 0;
  View view = {};
};

/// One group of ranks, as seen by one member. The same calls work whether or not the members'
/// accelerators are alike. The members are spoken of by their positions in `ranks`. A rank may be
/// in several groups, and have calls of all of them under way at once.
///
/// Every member starts the same collectives in the same order; a member that does not is found and
/// named. Data lie as collective/generators.h says: an all-reduce, reduce, broadcast,
/// reduce-scatter or all-gather has all chunks in the data of every rank; the last two give or take
/// chunk r at its place on rank r. A gather or scatter has all chunks on the root and one
/// elsewhere. An all-to-all has an input: a chunk for each rank. Threads: one, that of the port's
/// queue.
class Communicator {
 public:
  /// Throws kInvalidArgument if this rank is not one of `ranks`, or one is named twice.
  explicit Communicator(CommunicatorOptions options);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(options_.ranks.size()); }
  int world_rank(int rank) const { return options_.ranks.at(static_cast<std::size_t>(rank)); }

  /// What makes the group of some of these members, given by their positions here. `id` as in
  /// CommunicatorOptions.
  CommunicatorOptions subgroup(std::span<const int> positions, int id) const;

  /// Point to point; see DevicePort. Messages of one tag keep their order.
  Request send(int peer, std::uint64_t tag, View from) const;
  Request recv(int peer, std::uint64_t tag, View to) const;

  /// Starts all messages of a batch before any is waited for: receives first, so that what is sent
  /// has a place. `requests` has one for each, in the order of the batch.
  void start_batch(std::span<const PointToPoint> batch, std::span<Request> requests) const;

  /// Makes a collective ready, by the algorithm that the table of choices names. The first call in
  /// a group exchanges the hashes of the members' tables, and so waits for all members.
  std::unique_ptr<PreparedCollective> prepare(const Collective& collective);

  /// The same by an algorithm of the caller's, for a group of this size, on `table` chunks.
  std::unique_ptr<PreparedCollective> prepare(const CollectiveAlgorithm& algorithm,
                                              const ChunkTable& table, DType dtype,
                                              Reduction reduction = Reduction::kSum);

  /// Starts a run. Work queued before it makes the data; work queued after it has ended sees the
  /// result. Memory has the sizes that `collective` states. Allocates nothing.
  Request start(PreparedCollective& collective, const CollectiveMemory& memory);

  /// Starts a run and waits until no message is under way; the last additions may still be queued.
  void run(PreparedCollective& collective, View data, View scratch, Deadline deadline);

  /// Starts a collective that is prepared at its first call and kept with its scratch memory, so
  /// that equal calls later allocate nothing. For a call whose data are elsewhere, `input` has what
  /// this rank gives (its chunk of an all-gather, everything of a sum): it is copied to its place
  /// first. An all-to-all needs one.
  Request start(const Collective& collective, View data, View input = {});

  /// Waits until every member has called it.
  void barrier(Deadline deadline);

  /// Sums over the members, added in the order of their positions, so with equal bits each time.
  void all_reduce_host(std::span<double> values, Deadline deadline);

  /// `all` becomes the members' `mine`, in order; every member gives as many bytes.
  void all_gather_host(std::span<const std::byte> mine, std::span<std::byte> all,
                       Deadline deadline);

  Messenger& messenger() const { return options_.port->messenger(); }

 private:
  struct Kept {
    Collective collective = {};
    std::unique_ptr<Buffer> scratch = {};  // outlives the work that the other waits for
    std::unique_ptr<PreparedCollective> prepared = {};
  };

  Operation next_operation(std::string_view name);
  void agree_on_choices();
  CollectiveCall call_of(const Collective& collective) const;
  Kept& kept_for(const Collective& collective);
  void copy_input(const Collective& collective, const PreparedCollective& prepared, View data,
                  View input) const;
  void exchange(std::span<const std::byte> mine, std::span<std::byte> all, Operation operation,
                std::uint64_t check, Deadline deadline);

  CommunicatorOptions options_;
  int rank_ = -1;
  std::int64_t number_ = 0;
  bool agreed_ = false;
  std::unique_ptr<PreparedCollective> barrier_;
  CollectiveAlgorithm host_gather_;
  StepOrder host_order_{{}};  // of this rank's steps of it
  std::vector<Handle> handles_;
  std::vector<double> gathered_;
  std::vector<std::unique_ptr<Kept>> kept_;  // the latest used last
};

}  // namespace hethub
