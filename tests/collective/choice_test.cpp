#include "hethub/collective/choice.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/collective/additions.h"
#include "hethub/collective/generators.h"

namespace hethub {
namespace {

ChoiceTable parsed(const std::string& text) {
  return parse_choices(parse_json(text, "choices.json"), "choices.json");
}

TEST(Choice, every_call_has_an_algorithm_and_narrow_sums_one_that_rounds_once) {
  for (int op = 0; op < kCollectiveOps; ++op) {
    for (const int world_size : {1, 2, 3, 8, 17}) {
      for (const std::int64_t bytes : {0, 4096, 1 << 20}) {
        for (const bool narrow : {false, true}) {
          const CollectiveCall call{.op = static_cast<CollectiveOp>(op),
                                    .world_size = world_size,
                                    .bytes = bytes,
                                    .narrow_sum = narrow};
          const auto algorithm = make_algorithm(choose(default_choices(), call), call);
          EXPECT_EQ(algorithm.world_size(), world_size);
          EXPECT_TRUE(!narrow || algorithm.rounds_once ||
                      !(call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduce ||
                        call.op == CollectiveOp::kReduceScatter))
              << algorithm.name;
          EXPECT_TRUE(make_algorithm(choose({}, call), call).world_size() == world_size);
        }
      }
    }
  }
}

TEST(Choice, many_ranks_sum_large_buffers_around_a_ring) {
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
    const CollectiveCall call{.op = op, .world_size = 16, .bytes = 1 << 20};
    EXPECT_EQ(choose(default_choices(), call), "ring") << name_of(op);
  }
}

TEST(Choice, the_first_rule_that_fits_decides) {
  const ChoiceTable table = parsed(R"({"format": "hethub-choices/1", "rules": [
      {"op": "all_reduce", "algorithm": "hierarchical", "needs_parts": true},
      {"op": "all_reduce", "algorithm": "tree", "most_bytes": 100, "least_ranks": 3},
      {"op": "all_reduce", "algorithm": "direct", "most_bytes": 100, "most_ranks": 2},
      {"op": "all_reduce", "algorithm": "ring"}]})");
  EXPECT_EQ(choose(table, {.world_size = 3, .bytes = 100}), "tree");
  EXPECT_EQ(choose(table, {.world_size = 2, .bytes = 100}), "direct");
  EXPECT_EQ(choose(table, {.world_size = 2, .bytes = 101}), "ring");
  EXPECT_EQ(choose(table, {.world_size = 3, .bytes = 101, .narrow_sum = true}), "pairwise");
  EXPECT_EQ(choose(table, {.world_size = 3, .parts = {{0}, {1, 2}}}), "hierarchical");
  EXPECT_EQ(choose(table, {.world_size = 3, .bytes = 500, .parts = {{0, 1, 2}}}), "ring");
}

TEST(Choice, a_table_survives_its_file_and_any_change_of_it_changes_the_hash) {
  const ChoiceTable table = default_choices();
  EXPECT_EQ(choices_text(parsed(choices_text(table))), choices_text(table));
  EXPECT_EQ(hash_of(table, {}), hash_of(parsed(choices_text(table)), {}));
  EXPECT_NE(hash_of(table, {}), hash_of(table, {{0, 1}, {2}}));
  EXPECT_NE(hash_of(table, {{0}, {1, 2}}), hash_of(table, {{0, 1}, {2}}));
  ChoiceTable other = table;
  other.rules[0].most_bytes += 1;
  EXPECT_NE(hash_of(table, {}), hash_of(other, {}));
}

void expect_refused(const std::string& text, const std::string& part) {
  try {
    parsed(text);
    ADD_FAILURE() << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Choice, a_wrong_table_is_refused_by_the_name_of_what_is_wrong) {
  expect_refused("[]", "choices.json");
  expect_refused(R"({"format": "hethub-choices/2", "rules": []})", "hethub-choices/2");
  expect_refused(R"({"format": "hethub-choices/1"})", "rules");
  expect_refused(R"({"format": "hethub-choices/1", "rules": [{"op": "all_reduce"}]})", "rules[0]");
  expect_refused(
      R"({"format": "hethub-choices/1", "rules": [{"op": "reduce", "algorithm": "rign"}]})",
      "rign");
  expect_refused(R"({"format": "hethub-choices/1", "rules": [
      {"op": "reduce", "algorithm": "tree", "most_bytes": -5}]})",
                 "most_bytes");
  expect_refused(R"({"format": "hethub-choices/1", "rules": [
      {"op": "reduce", "algorithm": "tree", "most_byte": 5}]})",
                 "most_bytes");
}

TEST(Choice, training_adds_around_a_ring_whatever_the_size_and_the_group) {
  for (const int ranks : {1, 2, 3, 8, 96}) {
    for (const std::int64_t bytes : {std::int64_t{4}, std::int64_t{1} << 30}) {
      for (const CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
        EXPECT_EQ(choose(training_choices(), {.op = op, .world_size = ranks, .bytes = bytes}),
                  "ring");
      }
    }
  }
}

TEST(Choice, a_call_counts_bytes_of_whole_elements_and_says_where_sums_are_narrow) {
  for (int op = 0; op < kCollectiveOps; ++op) {
    const auto kind = static_cast<CollectiveOp>(op);
    const CollectiveCall wide = call_of(kind, 4, 1024, DType::kF32);
    EXPECT_EQ(wide.bytes, kind == CollectiveOp::kAllToAll ? 0 : 4096) << name_of(kind);
    EXPECT_FALSE(wide.narrow_sum);
    const bool sums = kind == CollectiveOp::kAllReduce || kind == CollectiveOp::kReduce ||
                      kind == CollectiveOp::kReduceScatter;
    EXPECT_EQ(call_of(kind, 4, 7, DType::kBf16).narrow_sum, sums) << name_of(kind);
  }
}

TEST(Additions, a_reduce_is_the_op_that_its_slots_say_and_a_mean_divides_once) {
  const CollectiveAlgorithm pairwise = pairwise_reduce_scatter(4);
  const ChunkTable table = {7, 5, 0, 9};
  const SlotLayout layout(pairwise, table, 0);
  const Step& reduce = pairwise.steps[0].back();
  const Op sum = addition_of(pairwise, reduce, layout, DType::kBf16);
  EXPECT_EQ(std::get<Accumulate>(sum.body), (Accumulate{.count = 7, .terms = 3, .stride = 9}));
  const Op mean = addition_of(pairwise, reduce, layout, DType::kF32, Reduction::kAvg);
  EXPECT_EQ(std::get<Accumulate>(mean.body).divisor, 4);
  EXPECT_EQ(std::get<Accumulate>(mean.body).reduction, Reduction::kSum);
  Step partial = reduce;
  partial.completes = false;
  const Op part = addition_of(pairwise, partial, layout, DType::kF32, Reduction::kAvg);
  EXPECT_EQ(std::get<Accumulate>(part.body).divisor, 1);
  EXPECT_THROW(addition_of(pairwise, pairwise.steps[0].front(), layout, DType::kF32), Error);
}

}  // namespace
}  // namespace hethub
