#include "hethub/collective/tuning.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hethub {
namespace {

std::string chosen(const ChoiceTable& table, CollectiveOp op, int ranks, std::int64_t bytes) {
  return choose(table, {.op = op, .world_size = ranks, .bytes = bytes});
}

std::vector<AlgorithmTime> measured() {
  const CollectiveOp op = CollectiveOp::kAllReduce;
  return {{.op = op, .algorithm = "direct", .ranks = 4, .bytes = 1000, .seconds = 1},
          {.op = op, .algorithm = "ring", .ranks = 4, .bytes = 1000, .seconds = 4},
          {.op = op, .algorithm = "direct", .ranks = 4, .bytes = 4000, .seconds = 4.1},
          {.op = op, .algorithm = "ring", .ranks = 4, .bytes = 4000, .seconds = 4.05},
          {.op = op, .algorithm = "direct", .ranks = 4, .bytes = 16000, .seconds = 16},
          {.op = op, .algorithm = "ring", .ranks = 4, .bytes = 16000, .seconds = 5}};
}

TEST(Tuning, the_fastest_serves_up_to_half_way_to_the_next_size) {
  const ChoiceTable table = tuned_choices(measured(), {});
  EXPECT_EQ(chosen(table, CollectiveOp::kAllReduce, 4, 0), "direct");
  EXPECT_EQ(chosen(table, CollectiveOp::kAllReduce, 4, 8000), "direct");
  EXPECT_EQ(chosen(table, CollectiveOp::kAllReduce, 4, 8001), "ring");
  EXPECT_EQ(chosen(table, CollectiveOp::kAllReduce, 4, std::int64_t{1} << 40), "ring");
  EXPECT_EQ(table.rules.size(), 2U);
}

TEST(Tuning, calls_that_were_not_measured_keep_their_rules) {
  const ChoiceTable table = tuned_choices(measured(), default_choices());
  for (const std::int64_t bytes : {100, 100000, 10000000}) {
    for (const auto& [op, ranks] :
         {std::pair(CollectiveOp::kAllReduce, 5), std::pair(CollectiveOp::kAllGather, 4)}) {
      EXPECT_EQ(chosen(table, op, ranks, bytes), chosen(default_choices(), op, ranks, bytes));
    }
  }
  const CollectiveCall in_parts{.world_size = 4, .bytes = 1 << 20, .parts = {{0, 1}, {2, 3}}};
  EXPECT_EQ(choose(table, in_parts), "hierarchical");
}

TEST(Tuning, the_table_survives_its_file) {
  const ChoiceTable table = tuned_choices(measured(), default_choices());
  const std::string written = choices_text(table);
  EXPECT_EQ(choices_text(parse_choices(parse_json(written, "a"), "a")), written);
}

TEST(Tuning, bus_factors_are_what_the_busiest_rank_sends_by_the_best_algorithm) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveOp::kAllReduce, 1), 0);
}

}  // namespace
}  // namespace hethub
