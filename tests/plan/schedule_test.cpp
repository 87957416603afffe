#include "hethub/plan/schedule.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/interleaved.h"
#include "hethub/plan/zero_bubble.h"

namespace hethub {
namespace {

// Plays a schedule over mailboxes that hold `capacity` messages: a send into a full one waits.
// Returns whether every worker finishes.
bool finishes_with_mailboxes_of(int capacity, const Schedule& schedule) {
  std::vector<std::size_t> next(schedule.workers(), 0);
  std::map<std::pair<int, ActionKind>, std::vector<Action>> mailbox;  // by receiving end
  const auto advance = [&](int worker) {
    const Action& now = schedule.actions[worker][next[worker]];
    const WorkerAction far = far_end(schedule, now);
    if (now.is_send()) {
      auto& box = mailbox[{far.worker, far.action.kind}];
      if (std::ssize(box) == capacity) return false;
      box.push_back(far.action);
    } else if (now.is_recv()) {
      auto& box = mailbox[{worker, now.kind}];
      if (box.empty() || box.front() != now) return false;
      box.erase(box.begin());
    }
    ++next[worker];
    return true;
  };
  bool moved = true;
  bool finished = false;
  while (moved) {
    moved = false;
    finished = true;
    for (int worker = 0; worker < schedule.workers(); ++worker) {
      while (next[worker] < schedule.actions[worker].size() && advance(worker)) {
        moved = true;
      }
      finished = finished && next[worker] == schedule.actions[worker].size();
    }
  }
  for (const auto& [end, box] : mailbox) {
    finished = finished && box.empty();
  }
  return finished;
}

// The same where a message waits for its receiver to ask for it by name.
bool finishes_in_any_order(const Schedule& schedule) {
  std::vector<std::size_t> next(schedule.workers(), 0);
  std::vector<Action> sent;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int worker = 0; worker < schedule.workers(); ++worker) {
      while (next[worker] < schedule.actions[worker].size()) {
        const Action& now = schedule.actions[worker][next[worker]];
        if (now.is_send()) sent.push_back(far_end(schedule, now).action);
        if (now.is_recv()) {
          const auto found = std::find(sent.begin(), sent.end(), now);
          if (found == sent.end()) break;
          sent.erase(found);
        }
        ++next[worker];
        moved = true;
      }
    }
  }
  bool finished = sent.empty();
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    finished = finished && next[worker] == schedule.actions[worker].size();
  }
  return finished;
}

int most_alive(const std::vector<Action>& actions) {
  int alive = 0;
  int most = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kForward) most = std::max(most, ++alive);
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) --alive;
  }
  return most;
}

void each_micro_batch_goes_forward_then_backward_once(const Schedule& schedule) {
  std::vector<ActionKind> passes = {ActionKind::kForward, ActionKind::kBackward};
  if (schedule.splits_backward()) {
    passes = {ActionKind::kForward, ActionKind::kBackwardInput, ActionKind::kBackwardWeight};
  }
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    const auto& actions = schedule.actions[worker];
    for (int mb = 0; mb < schedule.micro_batches; ++mb) {
      auto before = actions.begin();
      for (const ActionKind kind : passes) {
        const Action pass{.kind = kind, .position = worker, .micro_batch = mb};
        EXPECT_EQ(std::count(actions.begin(), actions.end(), pass), 1);
        const auto at = std::find(actions.begin(), actions.end(), pass);
        EXPECT_LE(before, at);
        before = at;
      }
    }
  }
}

TEST(Schedule, all_of_one_position_a_worker_are_complete_and_finish_for_many_shapes) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      for (const ScheduleEntry& entry : all_schedules()) {
        if (entry.virtual_stages) continue;  // see below
        const Schedule schedule = entry.make({stages, micro_batches});
        EXPECT_TRUE(finishes_with_mailboxes_of(entry.name == "gpipe" ? micro_batches : 1, schedule))
            << entry.name << " " << stages << " x " << micro_batches;
        each_micro_batch_goes_forward_then_backward_once(schedule);
        for (const auto& actions : schedule.actions) {
          EXPECT_EQ(actions.back().kind, ActionKind::kSyncParameters);
        }
      }
    }
  }
}

TEST(Schedule, stage_s_of_p_keeps_p_minus_s_micro_batches_alive_in_1f1b_and_all_in_gpipe) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int micro_batches = 1; micro_batches <= 9; ++micro_batches) {
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(most_alive(one_forward_one_backward(stages, micro_batches).actions[stage]),
                  std::min(stages - stage, micro_batches));
        EXPECT_EQ(most_alive(gpipe(stages, micro_batches).actions[stage]), micro_batches);
      }
    }
  }
}

TEST(Schedule, the_lanes_that_a_schedule_promises_are_those_of_its_first_stage) {
  int promise = 0;
  for (const ScheduleEntry& entry : all_schedules()) {
    if (entry.most_alive == nullptr) continue;
    ++promise;
    for (int stages = 1; stages <= 6; ++stages) {
      for (int micro_batches = 1; micro_batches <= 13; ++micro_batches) {
        const Schedule schedule = entry.make({stages, micro_batches});
        const auto lanes = [&](int worker) { return lanes_of(uses_of(schedule, worker), 0).lanes; };
        EXPECT_EQ(entry.most_alive({stages, micro_batches}), lanes(0)) << entry.name;
        for (int worker = 1; worker < stages; ++worker) {
          EXPECT_LE(lanes(worker), lanes(0)) << entry.name;
        }
      }
    }
  }
  EXPECT_GE(promise, 2);
}

// When each of a worker's actions ends, each pass taking one unit and a message none.
int units_of(const Schedule& schedule) {
  std::vector<std::size_t> next(schedule.workers(), 0);
  std::vector<int> now(schedule.workers(), 0);
  std::map<Action, int> arrives;
  for (bool moved = true; moved;) {
    moved = false;
    for (int worker = 0; worker < schedule.workers(); ++worker) {
      for (const auto& list = schedule.actions[worker]; next[worker] < list.size();) {
        const Action& action = list[next[worker]];
        if (action.is_recv() && !arrives.contains(action)) break;
        if (action.is_recv()) now[worker] = std::max(now[worker], arrives[action]);
        if (action.is_send()) arrives[far_end(schedule, action).action] = now[worker];
        if (action.is_compute()) now[worker] += static_cast<int>(phases_of(action.kind).size());
        ++next[worker];
        moved = true;
      }
    }
  }
  return *std::max_element(now.begin(), now.end());
}

TEST(Schedule, zero_bubble_has_a_third_of_the_bubble_of_1f1b_in_no_more_memory) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (const int micro_batches : {stages, stages + 1, 2 * stages, 4 * stages}) {
      const Schedule schedule = zero_bubble(stages, micro_batches);
      EXPECT_EQ(units_of(schedule), 3 * micro_batches + (stages - 1));
      EXPECT_EQ(units_of(one_forward_one_backward(stages, micro_batches)),
                3 * (micro_batches + stages - 1));
      for (const auto& actions : schedule.actions) {
        EXPECT_LE(most_alive(actions), stages);
      }
    }
  }
}

TEST(Schedule, interleaved_runs_each_position_once_for_each_micro_batch_and_finishes) {
  for (const int stages : {2, 3, 4, 8}) {
    for (const int chunks : {1, 2, 3, 5}) {
      for (const int runs : {1, 2, 4}) {
        const Schedule schedule = interleaved(stages, chunks, stages * runs);
        for (int position = 0; position < stages * chunks; ++position) {
          const auto& actions = schedule.actions[schedule.worker_of[0][position]];
          for (int mb = 0; mb < schedule.micro_batches; ++mb) {
            for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
              const Action action{.kind = kind, .position = position, .micro_batch = mb};
              EXPECT_EQ(std::count(actions.begin(), actions.end(), action), 1);
            }
          }
        }
        EXPECT_TRUE(finishes_in_any_order(schedule)) << stages << ' ' << chunks << ' ' << runs;
      }
    }
  }
  EXPECT_THROW(interleaved(1, 2, 4), Error);
  EXPECT_THROW(interleaved(4, 2, 6), Error);
}

TEST(Schedule, interleaved_over_one_position_each_is_1f1b_with_a_longer_lead) {
  const Schedule one = interleaved(4, 1, 8);
  EXPECT_EQ(one.worker_of, one_forward_one_backward(4, 8).worker_of);
  EXPECT_EQ(most_alive(one.actions[3]), 1);
}

TEST(Schedule, the_mailbox_player_sees_a_missing_send) {
  Schedule broken = one_forward_one_backward(2, 1);
  std::erase_if(broken.actions[0], [](const Action& action) { return action.is_send(); });
  EXPECT_FALSE(finishes_with_mailboxes_of(9, broken));
}

TEST(Schedule, the_far_end_of_the_far_end_is_the_action_itself) {
  const Schedule schedule = one_forward_one_backward(4, 3);
  for (int worker = 0; worker < 4; ++worker) {
    for (const Action& action : schedule.actions[worker]) {
      const WorkerAction far = far_end(schedule, action);
      EXPECT_EQ(far_end(schedule, far.action), (WorkerAction{worker, action}));
    }
  }
}

TEST(Schedule, uses_span_from_a_micro_batchs_first_action_to_its_last) {
  const Schedule schedule = one_forward_one_backward(3, 5);
  for (int worker = 0; worker < 3; ++worker) {
    const auto uses = uses_of(schedule, worker);
    ASSERT_EQ(uses.size(), 5U);
    for (const ProgramUse& use : uses) {
      EXPECT_EQ(schedule.actions[worker][use.first_slot].micro_batch, use.instance);
      EXPECT_EQ(schedule.actions[worker][use.last_slot].micro_batch, use.instance);
      EXPECT_TRUE(schedule.actions[worker][use.last_slot].kind ==
                  (worker == 0 ? ActionKind::kBackward : ActionKind::kSendGradient));
    }
  }
}

TEST(Schedule, an_unknown_name_is_refused_with_those_there_are) {
  try {
    make_schedule("1f1c", {2, 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().expected, "one of 1f1b, gpipe, interleaved, zero-bubble");
  }
}

}  // namespace
}  // namespace hethub
