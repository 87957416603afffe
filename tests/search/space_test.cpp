#include "hethub/search/space.h"

#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "hethub/collective/choice.h"
#include "hethub/search/pipeline_tables.h"
#include "hethub/search/widths.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

std::int64_t choose(int n, int k) {
  std::int64_t ways = 1;
  for (int i = 1; i <= k; ++i) {
    ways = ways * (n - k + i) / i;
  }
  return ways;
}

std::vector<RankClass> classes_of(const std::vector<int>& counts) {
  std::vector<RankPlace> ranks;
  for (std::size_t kind = 0; kind < counts.size(); ++kind) {
    for (int device = 0; device < counts[kind]; ++device) {
      ranks.push_back({.kind = std::string(1, static_cast<char>('a' + kind)), .device = device});
    }
  }
  return rank_classes(ranks);
}

TEST(Space, ranks_of_one_kind_on_one_machine_are_one_class) {
  const auto classes = rank_classes({{"a", 0, 0}, {"b", 0, 0}, {"a", 0, 1}, {"a", 1, 0}});
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_EQ(classes[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(classes[1].ranks, (std::vector<int>{1}));
  EXPECT_EQ(classes[2].ranks, (std::vector<int>{3}));
}

// Widths that validate() would refuse are not offered.
TEST(Space, a_width_divides_a_sequence_that_is_split) {
  Cluster cluster = example_cluster(8, 0);
  const CostModel costs(cluster, {});
  ModelConfig model = example_model(3);
  model.heads = 16;
  model.kv_heads = 16;
  SearchRequest request = request_of(costs, model, 8);
  request.sequence_length = 100;
  EXPECT_EQ(widths_of(request, "a"), (std::vector<int>{1, 2, 4, 8}));
  request.sequence_parallel = true;
  EXPECT_EQ(widths_of(request, "a"), (std::vector<int>{1, 2, 4}));
}

TEST(Space, there_are_as_many_shapes_as_words_with_so_many_letters) {
  EXPECT_EQ(all_shapes(classes_of({8}), 8).size(), 8U);
  EXPECT_EQ(all_shapes(classes_of({4, 4}), 8).size(),
            choose(10, 5) - 2U);  // Σ C(a+b, a), a and b up to 4, less the empty word
  EXPECT_EQ(all_shapes(classes_of({1, 1, 1}), 8).size(), 3U + 6U + 6U);
  EXPECT_EQ(all_shapes(classes_of({1, 1, 1}), 2).size(), 3U + 6U);
  EXPECT_TRUE(all_shapes(classes_of({2}), 0).empty());
}

TEST(PipelineTables, replicas_exchange_what_the_collectives_of_training_send) {
  for (int replicas = 1; replicas <= 17; ++replicas) {
    double share = 0;
    for (const CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
      const CollectiveCall call = call_of(op, replicas, 1 << 20, DType::kF32);
      share += traffic_of(chosen_algorithm(training_choices(), call)).share;
    }
    EXPECT_NEAR(exchanges(replicas), share, 1e-12) << replicas;
  }
}

TEST(Space, every_split_covers_all_layers_once) {
  for (int layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= 9; ++stages) {
      std::set<std::vector<int>> seen;
      for_each_split(layers, stages, [&](const std::vector<int>& split) {
        EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
        EXPECT_EQ(split.size(), static_cast<std::size_t>(stages));
        EXPECT_TRUE(std::all_of(split.begin(), split.end(), [](int n) { return n >= 1; }));
        seen.insert(split);
        return true;
      });
      const auto expected = layers < stages ? 0 : choose(layers - 1, stages - 1);
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), expected);
    }
  }
}

TEST(Space, even_splits_differ_by_one_at_most) {
  EXPECT_TRUE(is_even({8, 8, 7, 7}));
  EXPECT_TRUE(is_even({3}));
  EXPECT_FALSE(is_even({4, 3, 5}));
}

TEST(Space, combinations_of_equal_devices_are_partitions) {
  // Partitions of at most n things: 1, 3, 6, 11, 18, 29, 44, 66 (sums of the partition numbers).
  const std::vector<int> expected = {1, 3, 6, 11, 18, 29, 44, 66};
  for (int devices = 1; devices <= 8; ++devices) {
    const auto classes = classes_of({devices});
    int found = 0;
    for_each_combination(classes, all_shapes(classes, devices), devices,
                         [&](const std::vector<int>&) { return ++found > 0; });
    EXPECT_EQ(found, expected[devices - 1]);
  }
}

TEST(Space, a_visitor_that_has_enough_ends_the_walk) {
  const auto classes = classes_of({4, 4});
  int combinations = 0;
  for_each_combination(classes, all_shapes(classes, 8), 8,
                       [&](const std::vector<int>&) { return ++combinations < 5; });
  EXPECT_EQ(combinations, 5);
  int splits = 0;
  for_each_split(12, 4, [&](const std::vector<int>&) { return ++splits < 7; });
  EXPECT_EQ(splits, 7);
}

TEST(Space, no_combination_uses_a_rank_twice) {
  const auto classes = classes_of({2, 1});
  const auto shapes = all_shapes(classes, 3);
  int found = 0;
  for_each_combination(classes, shapes, 3, [&](const std::vector<int>& chosen) {
    std::vector<int> used = {0, 0};
    for (const int shape : chosen) {
      for (const int which : shapes[shape]) {
        ++used[which];
      }
    }
    EXPECT_LE(used[0], 2);
    EXPECT_LE(used[1], 1);
    return ++found > 0;
  });
  // By hand: a, aa, b, ab, ba, aab, aba, baa; a+a, a+b, aa+b, a+ab, a+ba; a+a+b.
  EXPECT_EQ(found, 14);
}

}  // namespace
}  // namespace hethub
