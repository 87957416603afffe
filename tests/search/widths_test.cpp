#include "hethub/search/widths.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/plan/validate.h"
#include "hethub/search/exact.h"
#include "hethub/search/reasons.h"
#include "hethub/search/scaled.h"
#include "hethub/search/search_cache.h"
#include "tests/search/random_requests.h"

namespace hethub {
namespace {

std::string refusal_of(const SearchRequest& request) {
  try {
    make_strategy("exact")->find(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// As a profile of undivided stages leaves them.
Costs measured_costs(const ModelConfig& model, const JobForm& form) {
  Costs costs;
  KindCosts& kind = costs.kinds["a"];
  StagePrograms programs(model, form);
  for (const int size : {1, 2}) {
    for (const Program& program : programs.of(size, {})) {
      for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
        for (const Instruction& one : program.phase(phase)) {
          kind.ops.push_back(row_of(one.op, 1e-12 * work_of(one.op), 3));
        }
      }
    }
  }
  for (const Op& op :
       {Op{"norm", DType::kF32, SumSquares{1000}}, Op{"adamw", DType::kF32, AdamW{.count = 1000}},
        Op{"zero", DType::kF32, Fill{.count = 1000}},
        Op{"sum", DType::kF32, Accumulate{.count = 1000}}}) {
    kind.ops.push_back(row_of(op, 1e-12 * work_of(op), 3));
  }
  return costs;
}

TEST(Widths, whose_ops_have_no_cost_are_left_out_unless_a_pin_asks_for_them) {
  const ModelConfig model = example_model(4);
  Cluster cluster = example_cluster(16, 0);
  cluster.kinds.pop_back();
  cluster.links.resize(1);
  cluster.kinds[0].peak_flops_per_s.clear();
  cluster.kinds[0].memory_bytes_per_s = 0;
  const CostModel costs(cluster, measured_costs(model, {.sequence_length = 32}));
  SearchRequest request = request_of(costs, model, 32);
  SearchCache cache(model, costs, request.form());
  request.cache = &cache;
  for (int search = 0; search < 2; ++search) {  // what the first could not price is kept from none
    const SearchResult result = make_strategy("exact")->find(request);
    ASSERT_FALSE(result.best.empty());
    for (const Pipeline& pipeline : result.best.front().plan.pipelines) {
      for (const Stage& stage : pipeline.stages) {
        EXPECT_EQ(stage.tensor_parallel, 1);
      }
    }
  }
  add_pin(request.pins, "tensor_parallel=2");
  const std::string refusal = refusal_of(request);
  EXPECT_NE(refusal.find("tensor_parallel=2"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("peak_tflops"), std::string::npos) << refusal;
}

TEST(Widths, a_pin_may_ask_for_any_and_what_rules_it_out_is_named) {
  const CostModel costs(example_cluster(12, 0), {});
  ModelConfig model = example_model(4);
  SearchRequest request = request_of(costs, model, 24);
  add_pin(request.pins, "tensor_parallel=3");
  EXPECT_NE(refusal_of(request).find("num_attention_heads=4"), std::string::npos)
      << refusal_of(request);
  add_pin(request.pins, "tensor_parallel=8");
  EXPECT_NE(refusal_of(request).find("num_attention_heads=4"), std::string::npos)
      << refusal_of(request);
  request.model.heads = request.model.kv_heads = 6;
  add_pin(request.pins, "tensor_parallel=3");
  const SearchResult result = make_strategy("exact")->find(request);
  ASSERT_FALSE(result.best.empty());
  EXPECT_TRUE(validate(result.best.front().plan, request.model).empty());
  EXPECT_EQ(result.best.front().plan.pipelines[0].stages[0].tensor_parallel, 3);
  const CostModel odd(example_cluster(16, 0), {});
  SearchRequest on_odd = request_of(odd, request.model, 24);
  on_odd.pins = request.pins;
  EXPECT_NE(refusal_of(on_odd).find("16 of its devices"), std::string::npos) << refusal_of(on_odd);
}

// One sequence, no launches: a stage's layers are shared out among all devices, or most wait.
TEST(Widths, few_devices_may_form_groups_as_many_may) {
  const CostModel costs(example_cluster(4, 8, {1e-9, 1e13}), {});
  SearchRequest request = request_of(costs, example_model(4), 1);
  request.micro_batch_sizes = {1};
  request.pins.kinds = {"a"};
  const SearchResult narrow = ExactSearch(request).run();
  const SearchResult both = make_strategy("exact")->find(request);
  ASSERT_FALSE(both.best.empty());
  EXPECT_LT(both.best.front().prediction.step_seconds,
            0.9 * narrow.best.front().prediction.step_seconds);
  EXPECT_LE(both.bound_seconds, both.best.front().prediction.step_seconds);
  const Prediction whole = predict(both.best.front().plan, request.model, costs);
  EXPECT_NEAR(both.best.front().prediction.step_seconds, whole.step_seconds,
              1e-9 * whole.step_seconds);
  request.pins.kinds.clear();
  const UpperBound bound = upper_bound_of(request, *make_strategy("exact"));
  EXPECT_GE(bound.kinds[0].tokens_per_second,
            (1 - 1e-9) * both.best.front().prediction.tokens_per_second);
}

TEST(Widths, a_plan_that_only_groups_can_hold_is_found_with_no_time_to_spare) {
  Cluster cluster = example_cluster(4, 0, {1e-6, 1e10});
  const ModelConfig model = example_model(1);
  StageMemory memory(model, {.sequence_length = 32});
  const std::int64_t narrow = memory.of({0, 1}, 1, Recompute::kFull).arena(4, 1);
  const std::int64_t wide = memory.of({0, 1}, 1, Recompute::kFull, 4).arena(1, 1);
  cluster.kinds[0].memory_bytes = wide + wide / 32;
  ASSERT_LT(cluster.kinds[0].memory_bytes, narrow);
  const CostModel costs(cluster, {});
  SearchRequest request = request_of(costs, model, 4);
  ASSERT_TRUE(ExactSearch(request).run().best.empty());
  request.time_limit_s = 0;
  const SearchResult result = make_strategy("exact")->find(request);
  ASSERT_FALSE(result.best.empty());
  EXPECT_GT(result.best.front().plan.pipelines[0].stages[0].tensor_parallel, 1);
}

}  // namespace
}  // namespace hethub
