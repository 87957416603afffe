#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hethub {

enum class StepKind : std::uint8_t { kSend, kRecv, kReduce, kCopy };

inline bool is_message(StepKind kind) { return kind == StepKind::kSend || kind == StepKind::kRecv; }

/// The memories a step can name.
enum class Memory : std::uint8_t {
  kData,     ///< the caller's; the result ends there, and often the input lies there too
  kScratch,  ///< working space of a few places, each as large as the largest chunk
  kInput,    ///< what the caller gives where the algorithm does not work in place; only read
  kMirror,   ///< working space with room for every chunk, each after the chunks before it
};

/// A run of chunks in one memory. In the data and the input a chunk has its place after those that
/// the rank holds before it; in scratch the run begins at a place and is dense from there on.
struct Slot {
  Memory memory = Memory::kData;
  int chunk = 0;
  int place = 0;   ///< of scratch; 0 elsewhere. A run of k chunks takes k places
  int chunks = 1;  ///< how many, in a row

  friend auto operator<=>(const Slot&, const Slot&) = default;
};

/// One step of one rank. Steps speak of chunks, not addresses, so an algorithm fits any length.
///
///     send    from  -> peer      never waits
///     recv    peer  -> to        ends when the peer's next send to this rank has arrived
///     reduce  from  -> to        to = to + from[0] + from[1] + ... (or min, max, product)
///     copy    from  -> to        to = from
///
/// A step waits for the messages before it that still read or write what it touches, for no others
/// (collective/interpreter.h): where it stands in the list is its place in the order, not in time.
struct Step {
  StepKind kind = StepKind::kSend;
  int peer = -1;  ///< the other rank's position in the group; -1 for reduce and copy
  Slot from = {};
  Slot to = {};
  /// Of a reduce: how many slots of scratch are added, each `from.chunks` places after the one
  /// before. They are added in their order and, where the dtype is narrow, rounded once.
  int terms = 1;
  bool completes = false;  ///< after this reduce the chunks hold what all ranks gave
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
  bool mirrored = false;                      ///< steps name the mirror
  /// What a narrow dtype needs: no partial sum is rounded before all have been added.
  bool rounds_once = false;
  /// The chunks that the data of each rank holds, in order; empty: all chunks on every rank.
  std::vector<std::vector<int>> data_chunks = {};
  /// The same of the input; empty: there is none.
  std::vector<std::vector<int>> input_chunks = {};

  int world_size() const { return static_cast<int>(steps.size()); }
};

/// `total` elements cut into `chunks` whose sizes differ by at most one.
ChunkTable even_chunks(std::int64_t total, int chunks);

/// The elements of scratch that a call with this table needs: places times the largest chunk, and
/// behind them the mirror.
std::int64_t scratch_elements(const CollectiveAlgorithm& algorithm,
                              std::span<const std::int64_t> table);

/// The elements of all chunks of a slot.
std::int64_t elements_of(const Slot& slot, std::span<const std::int64_t> table);

/// The elements that `rank` sends in a call with this table.
std::int64_t elements_sent(const CollectiveAlgorithm& algorithm,
                           std::span<const std::int64_t> table, int rank);

/// What one rank sends in a call whose chunks are even.
struct Traffic {
  int messages = 0;
  double share = 0;  ///< of the whole data: 2(p-1)/p for a ring's all-reduce
};

/// Of rank 0, which sends as much as any in an algorithm that treats all ranks alike.
Traffic traffic_of(const CollectiveAlgorithm& algorithm);

/// Where one rank's slots lie in a call with a table. Elements are counted from the start of the
/// memory; the mirror lies in the same memory as scratch, behind it.
class SlotLayout {
 public:
  /// Throws kInvalidArgument if the table is not of the algorithm's length or has a negative count.
  SlotLayout(const CollectiveAlgorithm& algorithm, const ChunkTable& table, int rank);

  std::int64_t elements(const Slot& slot) const { return elements_of(slot, table_); }
  std::int64_t offset(const Slot& slot) const;

  /// From one term of a reduce to the next.
  std::int64_t term_stride(const Slot& from) const { return from.chunks * place_elements_; }

  std::int64_t data_elements() const { return data_elements_; }
  std::int64_t input_elements() const { return input_elements_; }
  std::int64_t scratch_elements() const { return scratch_elements_; }

 private:
  std::vector<std::int64_t> offsets_of(const std::vector<std::vector<int>>& held, int rank,
                                       std::int64_t& end) const;

  ChunkTable table_;
  std::int64_t place_elements_ = 0;
  std::int64_t mirror_begin_ = 0;
  std::int64_t data_elements_ = 0;
  std::int64_t input_elements_ = 0;
  std::int64_t scratch_elements_ = 0;
  std::vector<std::int64_t> data_ = {};  // by chunk; -1 where the rank does not hold it
  std::vector<std::int64_t> input_ = {};
  std::vector<std::int64_t> mirror_ = {};
};

/// What every rank does, one line a step, for people: "rank 0: send chunk 3 to rank 1".
std::string steps_text(const CollectiveAlgorithm& algorithm);

}  // namespace hethub
