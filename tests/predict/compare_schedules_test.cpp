#include "hethub/predict/compare_schedules.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/chimera.h"
#include "hethub/plan/pipedream.h"
#include "hethub/plan/validate.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

// Over `stages` whose passes take that long, with links that take no time.
double seconds_of(const Schedule& schedule, double forward, double backward) {
  const int stages = schedule.workers();
  const CostModel costs(example_cluster(stages, 0, {0, 1e30}), {});
  std::vector<int> devices;
  for (int worker = 0; worker < stages; ++worker) {
    devices.push_back(worker);
  }
  const StageNumbers numbers{.phase_seconds = {forward, backward, 0}, .sent_bytes = 100};
  return schedule_seconds(schedule, std::vector<StageNumbers>(stages, numbers), devices, costs);
}

TEST(CompareSchedules, chimera_has_the_bubble_of_its_paper) {
  for (const int stages : {2, 4, 6, 8, 16}) {
    for (const int units : {1, 2, 5}) {
      const int micro_batches = units * stages;
      const double seconds = seconds_of(chimera(stages, micro_batches), 1, 1);
      EXPECT_NEAR(1 - 2.0 * micro_batches / seconds,
                  (stages - 2.0) / (2.0 * micro_batches + stages - 2.0), 1e-9)
          << stages << ' ' << micro_batches;
    }
    const double seconds = seconds_of(chimera(stages, stages), 1, 2);
    EXPECT_NEAR(1 - 3.0 * stages / seconds, (stages - 2.0) / (1.5 * stages + stages - 2.0), 1e-9)
        << stages << ", backward twice as long";
  }
}

TEST(CompareSchedules, pipedream_s_bubble_is_the_filling_alone) {
  for (const int stages : {1, 2, 4, 8}) {
    for (const int micro_batches : {stages, 4 * stages}) {
      for (const Schedule& schedule :
           {pipedream(stages, micro_batches), pipedream_2bw(stages, micro_batches)}) {
        EXPECT_NEAR(seconds_of(schedule, 1, 2), 3.0 * (micro_batches + stages - 1), 1e-9)
            << schedule.name;
      }
    }
  }
}

TEST(CompareSchedules, a_step_in_a_long_asynchronous_run_has_no_bubble) {
  const CostModel costs(example_cluster(4, 0, {0, 1e30}), {});
  const Plan plan = example_plan(
      {example_pipeline({0, 1, 2, 3}, std::vector<std::string>(4, "a"), {1, 1, 1, 1}, 1, 8)});
  const std::vector<ScheduleAnswer> answers = compare_schedules(plan, example_model(4), costs);
  ASSERT_EQ(answers.size(), 6U);
  const auto named = [&](const std::string& name) {
    for (const ScheduleAnswer& one : answers) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << name;
    return ScheduleAnswer{};
  };
  EXPECT_LT(named("pipedream").seconds, named("1f1b").seconds);
  EXPECT_NEAR(named("pipedream").seconds, named("pipedream-2bw").seconds, 1e-12);
  EXPECT_LT(named("zero-bubble").bubble, named("1f1b").bubble);
  EXPECT_EQ(named("pipedream").weight_versions, 4);
  EXPECT_EQ(named("pipedream-2bw").weight_versions, 2);
  EXPECT_EQ(named("chimera").weight_copies, 2);
  EXPECT_EQ(named("gpipe").most_alive, 8);
  EXPECT_TRUE(named("1f1b").runs);
  EXPECT_FALSE(named("chimera").runs);
}

TEST(CompareSchedules, a_shape_that_does_not_fit_is_named_and_kinds_are_not_mixed) {
  const CostModel costs(example_cluster(3, 1), {});
  const ModelConfig model = example_model(3);
  const Plan odd = example_plan({example_pipeline({0, 1, 2}, {"a", "a", "a"}, {1, 1, 1}, 1, 4)});
  int misfits = 0;
  for (const ScheduleAnswer& one : compare_schedules(odd, model, costs)) {
    misfits += one.misfit.empty() ? 0 : 1;
  }
  EXPECT_EQ(misfits, 2) << "chimera and pipedream-2bw";
  const Plan mixed = example_plan({example_pipeline({0, 3}, {"a", "b"}, {2, 1}, 1, 4)});
  EXPECT_THROW(compare_schedules(mixed, model, costs), Error);
}

TEST(CompareSchedules, a_plan_that_names_one_that_is_predict_only_is_refused_by_that_name) {
  const Plan plan = example_plan({example_pipeline({0, 1}, {"a", "a"}, {1, 1}, 1, 2)}, "chimera");
  try {
    require_valid(plan, example_model(2));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("training does not run chimera"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace hethub
