#include "hethub/predict/simulator.h"

#include <algorithm>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// Lets each rank go on until it must wait for a message; a message's arrival lets its receiver go
// on. As each rank's order and each channel's order are fixed, so is the result.
class Player {
 public:
  Player(const SimStep& step, SimDetail detail)
      : step_(step),
        every_(detail == SimDetail::kEverySpan),
        next_(step.tasks.size(), 0),
        arrived_(step.messages, -1.0),
        waiter_(step.messages, -1),
        channel_free_(step.channels, 0.0),
        meetings_(step.meetings.size()) {
    times_.rank_seconds.assign(step.tasks.size(), 0.0);
    if (!every_) return;
    times_.tasks.resize(step.tasks.size());
    times_.messages.resize(step.messages);
  }

  SimTimes play() {
    for (std::size_t rank = 0; rank < step_.tasks.size(); ++rank) {
      ready_.push_back(static_cast<int>(rank));
    }
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      run(rank);
    }
    check_done();
    for (std::size_t rank = 0; rank < step_.like.size(); ++rank) {
      const auto like = static_cast<std::size_t>(step_.like[rank]);
      times_.rank_seconds[rank] = times_.rank_seconds[like];
    }
    times_.step_seconds =
        times_.rank_seconds.empty()
            ? 0
            : *std::max_element(times_.rank_seconds.begin(), times_.rank_seconds.end());
    return std::move(times_);
  }

 private:
  void run(int rank) {
    const std::vector<SimTask>& tasks = step_.tasks[rank];
    double& clock = times_.rank_seconds[rank];
    for (std::size_t& next = next_[rank]; next < tasks.size(); ++next) {
      const SimTask& task = tasks[next];
      const double begin = clock;
      if (task.kind == SimTaskKind::kWork) {
        clock += task.seconds;
      } else if (task.kind == SimTaskKind::kSend) {
        send(task, clock);
      } else if (task.kind == SimTaskKind::kMeet) {
        if (!meet(task, rank, clock)) return;
      } else {
        if (arrived_[task.message] < 0) {
          waiter_[task.message] = rank;
          return;
        }
        clock = std::max(clock, arrived_[task.message]);
      }
      if (every_) times_.tasks[rank].push_back({begin, clock});
    }
  }

  void send(const SimTask& task, double now) {
    double& free = channel_free_[task.channel];
    const double begin = std::max(now, free);
    free = begin + task.seconds;
    arrived_[task.message] = free;
    if (every_) times_.messages[task.message] = {begin, free};
    if (waiter_[task.message] >= 0) ready_.push_back(waiter_[task.message]);
  }

  // Whether the meeting is over. Who comes is waited for, and runs again once all have come.
  bool meet(const SimTask& task, int rank, double& clock) {
    Meeting& meeting = meetings_[task.message];
    const SimMeeting& stated = step_.meetings[task.message];
    if (meeting.come < stated.ranks) {
      ++meeting.come;
      meeting.last = std::max(meeting.last, clock);
      if (meeting.come < stated.ranks) {
        meeting.waiters.push_back(rank);
        return false;
      }
      ready_.insert(ready_.end(), meeting.waiters.begin(), meeting.waiters.end());
    }
    clock = meeting.last + stated.seconds;
    return true;
  }

  void check_done() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] == step_.tasks[rank].size()) continue;
      throw Error(ErrorCode::kDeadlock, {.what = text("simulated step: rank ", rank),
                                         .found = text("task ", next_[rank], " waits for ever"),
                                         .expected = "a matching send",
                                         .fix = "compare the sends and receives of its schedule"});
    }
  }

  struct Meeting {
    int come = 0;
    double last = 0;
    std::vector<int> waiters = {};
  };

  const SimStep& step_;
  bool every_;
  std::vector<std::size_t> next_;
  std::vector<double> arrived_;  // by message; negative: not yet
  std::vector<int> waiter_;      // by message: the rank that waits for it
  std::vector<double> channel_free_;
  std::vector<Meeting> meetings_;
  std::vector<int> ready_;
  SimTimes times_;
};

}  // namespace

SimTimes simulate(const SimStep& step, SimDetail detail) { return Player(step, detail).play(); }

}  // namespace hethub
