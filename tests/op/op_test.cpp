#include "hethub/op/op.h"

#include <gtest/gtest.h>

namespace hethub {
namespace {

TEST(Op, knows_its_shapes_work_and_bytes) {
  const OpFacts facts = facts_of({"mlp.up", DType::kBf16, Linear{.rows = 2, .in = 3, .out = 5}});
  EXPECT_EQ(facts.outputs[0].spec, (TensorSpec{DType::kBf16, {2, 5}}));
  EXPECT_EQ(facts.flops, 60);
  EXPECT_EQ(facts.bytes(), 2 * (6 + 15 + 10));
}

TEST(Op, a_bias_is_a_third_input_of_a_linear) {
  const OpFacts facts =
      facts_of({"q", DType::kF32, Linear{.rows = 2, .in = 3, .out = 5, .bias = true}});
  ASSERT_EQ(facts.inputs.size(), 3U);
  EXPECT_EQ(facts.inputs[2].elements(), 5);
}

// The pairs a mask keeps, counted one by one.
double count_pairs(std::int64_t seq, std::int64_t window) {
  double pairs = 0;
  for (std::int64_t i = 0; i < seq; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      if (window == 0 || j > i - window) ++pairs;
    }
  }
  return pairs;
}

TEST(Op, attention_counts_the_pairs_that_the_mask_keeps) {
  for (const std::int64_t seq : {1, 2, 7, 64}) {
    for (const std::int64_t window : {0, 1, 3, 64, 100}) {
      const Attention op{
          .batch = 2, .seq = seq, .heads = 4, .kv_heads = 2, .head_dim = 8, .window = window};
      EXPECT_EQ(facts_of({"a", DType::kF32, op}).flops, 2.0 * 4 * 8 * 4 * count_pairs(seq, window));
    }
  }
}

TEST(Op, an_updated_output_has_the_shape_of_its_input) {
  const std::vector<OpBody> updating = {LinearGradWeight{2, 3, 4},
                                        BiasGrad{2, 3},
                                        EmbeddingGrad{2, 3, 4},
                                        RmsNormGradGain{2, 3},
                                        LayerNormGradGain{2, 3},
                                        ExpertLinearGradWeight{6, 3, 4, 2, 6},
                                        Accumulate{5},
                                        AdamW{5, true},
                                        GroupWait{4}};
  for (const OpBody& body : updating) {
    const OpFacts facts = facts_of({"x", DType::kF32, body});
    for (const OutputFacts& output : facts.outputs) {
      ASSERT_GE(output.updates, 0);
      EXPECT_EQ(output.spec, facts.inputs.at(output.updates)) << facts.kind;
    }
  }
}

TEST(Op, an_expert_product_is_priced_by_the_slots_that_are_used_if_all_are_chosen_alike) {
  const SortChoices half{.rows = 8, .top = 2, .first = 2, .held = 2};
  EXPECT_EQ(half.slots(), 16);
  const OpFacts facts = facts_of({"x", DType::kF32, ExpertLinear{half.slots(), 3, 5, 2, 8}});
  EXPECT_EQ(facts.flops, 2.0 * 8 * 3 * 5);
  EXPECT_EQ(facts.outputs[0].spec, (TensorSpec{DType::kF32, {16, 5}}));
}

TEST(Op, sizes_are_spelled_in_the_order_of_the_struct) {
  EXPECT_EQ(sizes_text({"x", DType::kF32, Linear{2, 3, 4}}), "rows=2 in=3 out=4");
  EXPECT_EQ(sizes_text({"x", DType::kF32, Embedding{2, 3, 4}}), "rows=2 vocab=3 width=4");
  EXPECT_EQ(sizes_text({"x", DType::kF32, CrossEntropy{2, 3}}), "rows=2 vocab=3");
  EXPECT_EQ(sizes_text({"x", DType::kF32, Add{7}}), "count=7");
}

}  // namespace
}  // namespace hethub
