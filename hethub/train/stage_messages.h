#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "hethub/accel/rank/rank_device.h"
#include "hethub/comm/communicator.h"
#include "hethub/plan/boundary.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/plan/schedule.h"

namespace hethub {

/// How many messages a rank can have under way, and how long the longest is.
struct MessageNeeds {
  int messages = 0;
  std::int64_t longest_bytes = 0;
};

/// Sends and receives what crosses the ends of one rank's stage: each activation or gradient as one
/// message for each rank of the other stage that holds some of its rows.
/// Threads: one.
class StageMessages {
 public:
  /// All outlive it.
  StageMessages(const Plan& plan, const Schedule& schedule, RankDevice& device,
                std::chrono::milliseconds timeout);

  /// What the port needs for them.
  MessageNeeds needs() const;

  /// Needed before the first message.
  void use(Communicator& world) { world_ = &world; }

  /// Starts the action's messages to the worker of `to`.
  void send(const Action& what, const WorkerAction& to);

  /// Returns once the action's messages from the worker of `from` have arrived.
  void recv(const Action& what, const WorkerAction& from);

  /// Waits until a lane's earlier micro-batch is on its way no more.
  void free_lane(const Action& what);

  /// Waits until nothing is on its way.
  void finish();

 private:
  struct Part {
    int peer = 0;  // rank of the world
    std::int64_t offset = 0;
    std::int64_t bytes = 0;  // of the value at this end
  };
  using Parts = std::vector<Part>;

  Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }
  void find_parts(int other);
  Parts parts_with(int other, bool sends) const;
  std::int64_t row_bytes() const;
  View boundary(const Action& what) const;
  std::array<std::vector<Request>, 2>& sends_of(const Action& what);

  // Waits for all, each with a deadline of its own, and forgets them.
  void settle(std::vector<Request>& requests) const;

  const Plan& plan_;
  const RankPlan& rank_;
  RankDevice& device_;
  std::chrono::milliseconds timeout_;
  Communicator* world_ = nullptr;
  std::map<std::pair<int, bool>, Parts> parts_ =
      {};  // by the other stage and whether it is sent to
  // By program and lane: the activation's, the gradient's.
  std::vector<std::vector<std::array<std::vector<Request>, 2>>> sends_ = {};
  std::vector<Request> arriving_ = {};
};

}  // namespace hethub
