#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hethub/collective/algorithm.h"

namespace hethub {

enum class SimTaskKind : std::uint8_t { kWork, kSend, kRecv, kMeet };

/// One thing a rank does. A rank does its tasks in order, one at a time.
///
///     work   takes `seconds`
///     send   hands `message` to its channel and goes on; the message arrives once the channel has
///            carried what it was handed before, `seconds` later
///     recv   waits until `message` has arrived; its sender may wait for that too
///     meet   waits until all ranks of the meeting `message` have come, and then for its seconds
struct SimTask {
  SimTaskKind kind = SimTaskKind::kWork;
  double seconds = 0;
  int message = -1;
  int channel = -1;  ///< of a send
  int label = -1;    ///< for the caller; tasks with the same label make one bar of a timeline
};

/// A collective as one event: it begins once all have come and keeps them until its end.
struct SimMeeting {
  int ranks = 0;       ///< that come, once each
  double seconds = 0;  ///< from the last one's coming
};

/// What all ranks do in a step, and how many messages and channels their tasks name. Each message
/// is sent once and received once (its sender waits for it after the send, if it does); each
/// channel belongs to one sender, so that it serves its messages in the order of the plan and
/// simulated time never falls when a cost rises.
struct SimStep {
  std::vector<std::vector<SimTask>> tasks = {};  ///< by rank
  int messages = 0;
  int channels = 0;
  std::vector<SimMeeting> meetings = {};
  std::vector<int> like =
      {};  ///< by rank: the rank whose times it has; empty: its own, all of them
};

/// From when to when, in seconds after the start of the step.
struct SimSpan {
  double begin_s = 0;
  double end_s = 0;
};

/// A step laid out in time.
struct SimTimes {
  double step_seconds = 0;                ///< until the last rank is done
  std::vector<double> rank_seconds = {};  ///< until each rank is done
  /// By rank and task: empty unless asked for. A rank that has the times of another has none.
  std::vector<std::vector<SimSpan>> tasks = {};
  std::vector<SimSpan> messages = {};  ///< from leaving the sender to arriving
};

/// Whether `simulate` keeps when each task ran.
enum class SimDetail : std::uint8_t { kEndsOnly, kEverySpan };

/// Plays a step through, in time linear in its tasks. Throws kDeadlock, naming a rank and a task
/// that wait for ever.
SimTimes simulate(const SimStep& step, SimDetail detail = SimDetail::kEverySpan);

}  // namespace hethub
