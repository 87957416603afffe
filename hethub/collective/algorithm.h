#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hethub {

enum class StepKind : std::uint8_t { kSend, kRecv, kReduce, kCopy };

/// The two memories a step can name: the caller's data and working space.
enum class Memory : std::uint8_t { kData, kScratch };

/// One chunk of one memory. In the data, a chunk has its place after the chunks before it; scratch
/// is a few places that each hold any chunk.
struct Slot {
  Memory memory = Memory::kData;
  int chunk = 0;
  int place = 0;  ///< of scratch; 0 in data

  friend auto operator<=>(const Slot&, const Slot&) = default;
};

/// One step of one rank. Steps speak of chunks, not addresses, so an algorithm fits any length.
///
///     send    from  -> peer      never waits
///     recv    peer  -> to        waits for the peer's next send to this rank
///     reduce  from  -> to        to += from
///     copy    from  -> to        to  = from
///
/// A step that writes a slot first lets any send that still reads it finish.
struct Step {
  StepKind kind = StepKind::kSend;
  int peer = -1;  ///< the other rank's position in the group; -1 for reduce and copy
  Slot from = {};
  Slot to = {};
};

/// How many elements each chunk has, in the order of the data; zero is allowed.
using ChunkTable = std::vector<std::int64_t>;

/// A collective written down: for every rank of the group, the steps it takes, in order.
///
/// The same object is run by `comm`, priced by `predict` and checked in memory by `tests`.
/// Messages between two ranks arrive in the order they were sent. Ranks are positions in the group.
struct CollectiveAlgorithm {
  std::string name = {};                      ///< as traces and plans spell it: "ring_all_reduce"
  int chunks = 1;                             ///< the length of the ChunkTable it is called with
  int scratch_places = 0;                     ///< scratch holds this many chunks
  std::vector<std::vector<Step>> steps = {};  ///< steps[rank]

  int world_size() const { return static_cast<int>(steps.size()); }
};

/// `total` elements cut into `chunks` whose sizes differ by at most one.
ChunkTable even_chunks(std::int64_t total, int chunks);

/// The elements of scratch that a call with this table needs: places times the largest chunk.
std::int64_t scratch_elements(const CollectiveAlgorithm& algorithm,
                              std::span<const std::int64_t> table);

/// The elements that `rank` sends in a call with this table.
std::int64_t elements_sent(const CollectiveAlgorithm& algorithm,
                           std::span<const std::int64_t> table, int rank);

// Every generator below throws kInvalidArgument if `world_size` < 1. Chunk c belongs to rank c.

/// Leaves on rank c the sum over all ranks of chunk c; the other chunks hold partial sums.
/// The sum of chunk c is formed as x[c] + (x[c-1] + (... + (x[c+2] + x[c+1]))), ranks modulo p.
/// Each rank sends p-1 messages.
CollectiveAlgorithm ring_reduce_scatter(int world_size);

/// Copies chunk c from rank c to all ranks. Each rank sends p-1 messages.
CollectiveAlgorithm ring_all_gather(int world_size);

/// Sum over all ranks, left on all ranks: reduce-scatter, then all-gather, around a ring.
///
/// Each rank sends 2(p-1) messages of 1/p of the buffer, the least any all-reduce can send.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", JPDC 2009.
CollectiveAlgorithm ring_all_reduce(int world_size);

/// Copies the one chunk from `root` to all ranks, over a binomial tree: ⌈log2 p⌉ rounds, in each of
/// which every rank that has the data hands it to one that has not.
CollectiveAlgorithm tree_broadcast(int world_size, int root);

/// Rank 0 gets what each rank gives (chunk 0; that of rank r in scratch place r) and hands the
/// whole (chunk 1) to all. For a few numbers on the host: each value travels twice, in few
/// messages.
CollectiveAlgorithm root_all_gather(int world_size);

/// No rank finishes before all have begun: in round k a rank tells the one 2^k after it.
/// Its one chunk is empty. Source: Hensgen, Finkel and Manber, "Two algorithms for barrier
/// synchronization", 1988.
CollectiveAlgorithm dissemination_barrier(int world_size);

}  // namespace hethub
