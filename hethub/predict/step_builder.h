#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hethub/collective/algorithm.h"
#include "hethub/cost/cost_model.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/sim_algorithm.h"
#include "hethub/predict/simulator.h"

namespace hethub {

/// What a bar of the timeline is.
struct SimLabel {
  Action action = {};         ///< the first of those it stands for
  std::string lane = {};      ///< "compute" or "comm"
  std::string name = {};      ///< as the trace of a real run names it
  std::string category = {};  ///< "forward", "send", ...
};

/// Where the data of a message or collective lies. What lies on the host needs no copies to it, and
/// is so little (losses and norms) that adding it up costs nothing worth naming.
enum class DataPlace : std::uint8_t { kDevice, kHost };

/// Which of a rank's two lists tasks go to: what it does itself, or what goes on beside that. A
/// simulation lets both take their time at once.
enum class SimLane : std::uint8_t { kMain, kBeside };

/// One call of a collective: who takes part, and the messages between them. Those from one member
/// to another are numbered in a row, in the order they are sent.
struct SimCollective {
  struct Pair {
    int next_sent = 0;
    int next_received = 0;
    int end = 0;
  };

  std::vector<int> group = {};                         ///< ranks of the cluster
  std::shared_ptr<const SimAlgorithm> algorithm = {};  ///< shared by the calls of a step
  ChunkTable chunks = {};
  DType dtype = DType::kF32;
  DataPlace place = DataPlace::kDevice;
  std::vector<Pair> pairs = {};  ///< in the algorithm's order
};

/// Writes down what the ranks of a cluster do in a step, as tasks whose costs come from a
/// CostModel. Keeps a reference to the model.
class StepBuilder {
 public:
  explicit StepBuilder(const CostModel& costs);

  /// Remembers a label; its number goes with tasks.
  int add_label(SimLabel label);

  /// A new message, to be sent once and received once.
  int add_message() { return add_messages(1); }

  /// `count` new messages in a row; returns the first.
  int add_messages(int count) {
    step_.messages += count;
    return step_.messages - count;
  }

  /// `rank` computes for `seconds`.
  void work(int rank, double seconds, int label = -1);

  /// `rank` copies to the host where its route needs that, and posts the message.
  void send(int rank, int peer, double bytes, int message, int label = -1) {
    post(rank, peer, bytes, {message, label, DataPlace::kDevice});
  }

  /// `rank` waits for the message and copies it to its device where its route needs that.
  void recv(int rank, int peer, double bytes, int message, int label = -1) {
    accept(rank, peer, bytes, {message, label, DataPlace::kDevice});
  }

  /// Numbers the messages of one call of a collective, whose chunk c has `chunks[c]` elements of
  /// `dtype`. Throws kInvalidArgument if the algorithm is not for this group or table.
  SimCollective begin_collective(std::vector<int> group,
                                 std::shared_ptr<const SimAlgorithm> algorithm, ChunkTable chunks,
                                 DType dtype, DataPlace place = DataPlace::kDevice);
  SimCollective begin_collective(std::vector<int> group, CollectiveAlgorithm algorithm,
                                 ChunkTable chunks, DType dtype,
                                 DataPlace place = DataPlace::kDevice) {
    return begin_collective(std::move(group),
                            std::make_shared<const SimAlgorithm>(std::move(algorithm)),
                            std::move(chunks), dtype, place);
  }

  /// What the rank at `position` of the group does in it. Once for each position, in any order.
  /// Its steps wait for each other as StepOrder says, which the runtime obeys too; a reduce or copy
  /// costs what addition_of it costs on that rank's kind.
  void take_part(SimCollective& collective, int position, int label = -1);

  /// Tasks that are written from now on go to this lane.
  void use_lane(SimLane lane);

  /// `rank` tells its other lane something: it has at once what `message` says.
  void signal(int rank, int message, int label = -1);

  /// `rank` waits for what its other lane tells or until a message that it has sent has left.
  void await(int rank, int message, int label = -1);

  /// A collective as one event, to which that many ranks come. Returns its number.
  int add_meeting(SimMeeting meeting);

  /// `rank` comes to a meeting.
  void meet(int rank, int meeting, int label = -1);

  /// `rank` has the times of `other`, which does its tasks for it.
  void let_stand_for(int other, int rank);

  /// Seconds of a collective that begins on all ranks at once with nothing beside it.
  double alone_seconds(std::vector<int> group, const CollectiveAlgorithm& algorithm,
                       const ChunkTable& chunks, DType dtype,
                       DataPlace place = DataPlace::kDevice) const;

  const CostModel& costs() const { return costs_; }

  /// A number for a rank's kind, alike for alike kinds.
  int kind_of(int rank) const { return kind_of_rank_.at(rank); }

  /// Where in step().tasks the tasks of a rank's second lane are; there may be none.
  int row_beside(int rank) const { return static_cast<int>(costs_.ranks().size()) + rank; }

  const SimStep& step() const { return step_; }
  const std::vector<SimLabel>& labels() const { return labels_; }

 private:
  struct Envelope {
    int message = -1;
    int label = -1;
    DataPlace place = DataPlace::kDevice;
  };
  std::vector<SimTask>& tasks_of(int rank);
  void post(int rank, int peer, double bytes, Envelope envelope);
  void accept(int rank, int peer, double bytes, Envelope envelope);
  const TransferRates& rates(int from, int to);
  int begin_message(SimCollective& collective, int position, int step, int label);
  void finish_message(const SimCollective& collective, int position, const Step& step,
                      Envelope envelope);
  double addition_seconds(int rank, const Op& addition);

  const CostModel& costs_;
  SimStep step_;
  std::vector<SimLabel> labels_;
  std::vector<int> kind_of_rank_ = {};  // numbers, in the order of their first ranks
  std::map<std::tuple<int, int, bool>, TransferRates> rates_;  // by kinds, and whether in one node
  std::map<std::tuple<int, int, SimLane>, int> channels_;
  SimLane lane_ = SimLane::kMain;
  // By kind, dtype, count, terms and stride.
  std::map<std::tuple<int, DType, std::int64_t, std::int64_t, std::int64_t>, double> additions_;
};

}  // namespace hethub
