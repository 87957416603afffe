#include "hethub/predict/running_cost.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/cluster/cluster_file.h"
#include "tests/predict/example_plans.h"

namespace hethub {
namespace {

Plan mixed_plan() {
  return example_plan({example_pipeline({0, 1, 2}, {"a", "a", "b"}, {1, 1, 1}, 1, 4)});
}

TEST(RunningCost, is_the_sum_over_the_plan_s_devices) {
  Cluster cluster = example_cluster(3, 2);  // of which the plan leaves two out
  cluster.kinds[0].watts = 400;
  cluster.kinds[1].watts = 250;
  cluster.kinds[0].usd_per_hour = 2;
  cluster.kinds[1].usd_per_hour = 0.5;
  const RunningCost cost = running_cost_of(mixed_plan(), cluster);
  EXPECT_DOUBLE_EQ(cost.watts, 1050);
  EXPECT_DOUBLE_EQ(cost.usd_per_hour, 4.5);
  EXPECT_DOUBLE_EQ(cost.kilowatt_hours(7200), 2.1);
  EXPECT_DOUBLE_EQ(cost.usd(1800), 2.25);
}

TEST(RunningCost, is_not_known_where_a_kind_states_none) {
  Cluster cluster = example_cluster(2, 1);
  cluster.kinds[0].watts = 400;
  cluster.kinds[0].usd_per_hour = cluster.kinds[1].usd_per_hour = 1;
  const RunningCost cost = running_cost_of(mixed_plan(), cluster);
  EXPECT_EQ(cost.watts, 0);
  EXPECT_EQ(cost.usd_per_hour, 3);
}

TEST(RunningCost, watts_and_prices_are_read_and_written) {
  Cluster cluster = example_cluster(1, 0);
  for (Kind& kind : cluster.kinds) {
    kind.backend = "cpu";
  }
  cluster.kinds[0].watts = 400;
  cluster.kinds[0].usd_per_hour = 2.5;
  EXPECT_EQ(parse_cluster(to_json(cluster), "cluster.json"), cluster);
  cluster.kinds[0].watts = -1;
  EXPECT_FALSE(faults_of(cluster).empty());
}

}  // namespace
}  // namespace hethub
