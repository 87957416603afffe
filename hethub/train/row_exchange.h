#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "hethub/accel/rank/group_runner.h"
#include "hethub/comm/communicator.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/train/stage_messages.h"

namespace hethub {

/// Performs the group ops of one kind: RowExchange. The host reads how many rows go where, so a
/// rank's device is waited for; then members send each other the rows of one expert at a time,
/// first those to the next member, as pairwise_all_to_all does. Rows are moved as they are, so the
/// order of all later sums is that of the plan. Allocates nothing after `make_ready`. Threads: one.
class RowExchanger {
 public:
  /// The queue is that of the group's port; both outlive it.
  RowExchanger(Queue& queue, std::chrono::milliseconds timeout)
      : queue_(queue), timeout_(timeout) {}

  /// Takes the host memory that such an op needs.
  void make_ready(const GroupStart& op);

  /// Performs the op in its group. A member with more rows than there can be, as where the logits
  /// of a router are no numbers, loses what is over: on all ranks alike.
  void run(const GroupStart& op, DType dtype, const GroupOperands& operands, Communicator& group);

 private:
  // The rows of an expert of one member.
  struct Piece {
    std::int64_t listed = 0;  // where they lie at the member whose rows they are
    std::int64_t held = 0;    // where they lie at the member that has the expert
    std::int64_t rows = 0;
  };
  struct Place {
    View data = {};
    bool listed = false;  // whether data has the rows where they are listed, or where they are held
  };

  // Calls each(piece) for what one member sends to another.
  template <typename Each>
  void for_pieces(const GroupStart& op, int giver, int taker, const Each& each) const;
  void locate(const GroupStart& op);
  void write_begins(const GroupStart& op, int me, View to);
  std::int64_t start_of(const GroupStart& op, int member, std::int64_t expert) const;
  const Piece& piece(const GroupStart& op, int member, std::int64_t expert) const;
  View part(const GroupStart& op, DType dtype, const Place& place, const Piece& piece) const;
  Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }

  Queue& queue_;
  std::chrono::milliseconds timeout_;
  std::vector<std::int32_t> starts_ = {};  // as the op is given them
  std::vector<std::int32_t> begins_ = {};  // as it gives them
  std::vector<Piece> pieces_ = {};         // by member and expert
  std::vector<Request> requests_ = {};
};

/// What its messages need of the rank's port: as many at once as two members have experts.
MessageNeeds exchange_needs(const RankPlan& rank);

}  // namespace hethub
