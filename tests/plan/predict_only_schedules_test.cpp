#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/chimera.h"
#include "hethub/plan/pipedream.h"
#include "hethub/plan/schedule.h"

namespace hethub {
namespace {

int count_of(const Schedule& schedule, ActionKind kind, int direction, int position, int mb) {
  int count = 0;
  for (const auto& actions : schedule.actions) {
    count += static_cast<int>(std::count_if(actions.begin(), actions.end(), [&](const Action& one) {
      return one.kind == kind && one.direction == direction && one.position == position &&
             one.micro_batch == mb;
    }));
  }
  return count;
}

TEST(Chimera, each_micro_batch_passes_all_positions_of_one_direction_once) {
  for (const int stages : {2, 4, 6, 8}) {
    for (const int units : {1, 2, 3}) {
      const Schedule schedule = chimera(stages, units * stages);
      ASSERT_EQ(schedule.worker_of.size(), 2U);
      for (int mb = 0; mb < schedule.micro_batches; ++mb) {
        const int direction = mb % stages >= stages / 2 ? 1 : 0;
        for (int position = 0; position < stages; ++position) {
          for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
            EXPECT_EQ(count_of(schedule, kind, direction, position, mb), 1);
            EXPECT_EQ(count_of(schedule, kind, 1 - direction, position, mb), 0);
          }
        }
      }
    }
  }
}

// The paper's range of micro-batches alive on a worker, of one unit: p/2 + 1 to p.
TEST(Chimera, between_half_and_all_of_the_micro_batches_are_alive_on_a_worker) {
  for (const int stages : {2, 4, 8, 16}) {
    const Schedule schedule = chimera(stages, stages);
    int least = stages * 2;
    int most_of_all = 0;
    for (int worker = 0; worker < stages; ++worker) {
      int alive = 0;
      int most = 0;
      for (const Action& action : schedule.actions[worker]) {
        if (action.kind == ActionKind::kForward) most = std::max(most, ++alive);
        if (action.kind == ActionKind::kBackward) --alive;
      }
      EXPECT_EQ(alive, 0);
      least = std::min(least, most);
      most_of_all = std::max(most_of_all, most);
    }
    EXPECT_EQ(least, stages / 2 + 1);
    EXPECT_EQ(most_of_all, stages);
  }
}

TEST(Chimera, workers_hold_two_positions_that_mirror_each_other) {
  const Schedule schedule = chimera(4, 4);
  for (int position = 0; position < 4; ++position) {
    EXPECT_EQ(schedule.worker_of[0][position], position);
    EXPECT_EQ(schedule.worker_of[1][position], 3 - position);
  }
  EXPECT_THROW(chimera(3, 3), Error);
  EXPECT_THROW(chimera(4, 6), Error);
}

TEST(PipeDream, stage_s_of_p_keeps_p_minus_s_versions) {
  for (int stages = 1; stages <= 8; ++stages) {
    const Schedule schedule = pipedream(stages, 4 * stages);
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(most_weight_versions(schedule, stage), stages - stage) << stages;
    }
  }
}

TEST(PipeDream, a_backward_pass_uses_the_weights_of_its_forward_pass) {
  for (const Schedule& schedule : {pipedream(4, 16), pipedream_2bw(4, 16)}) {
    for (const auto& actions : schedule.actions) {
      std::map<int, int> used;
      int updates = 0;
      for (const Action& action : actions) {
        if (action.kind == ActionKind::kUpdate) {
          EXPECT_EQ(action.weight_version, ++updates);
          continue;
        }
        if (!action.is_compute()) continue;
        EXPECT_LE(action.weight_version, updates) << "weights that are made already";
        const auto [first, is_new] = used.try_emplace(action.micro_batch, action.weight_version);
        EXPECT_EQ(first->second, action.weight_version);
        EXPECT_EQ(is_new, action.kind == ActionKind::kForward);
      }
    }
  }
}

TEST(PipeDream2bw, gradients_are_one_update_late_and_two_versions_are_kept) {
  for (int stages = 2; stages <= 8; ++stages) {
    const Schedule schedule = pipedream_2bw(stages, 5 * stages);
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(most_weight_versions(schedule, stage), 2);
      for (const Action& action : schedule.actions[stage]) {
        if (action.kind == ActionKind::kUpdate) continue;
        EXPECT_EQ(action.weight_version, std::max(0, action.micro_batch / stages - 1));
      }
    }
  }
  EXPECT_THROW(pipedream_2bw(4, 6), Error);
}

TEST(WeightVersions, of_synchronous_schedules_are_one) {
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(most_weight_versions(one_forward_one_backward(4, 8), stage), 1);
    EXPECT_EQ(most_weight_versions(gpipe(4, 8), stage), 1);
    EXPECT_EQ(most_weight_versions(chimera(4, 8), stage), 1);
  }
}

}  // namespace
}  // namespace hethub
