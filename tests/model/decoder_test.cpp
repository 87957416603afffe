#include "hethub/model/decoder.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "hethub/program/differentiate.h"

namespace hethub {
namespace {

ModelConfig small(bool tied) {
  return parse_model(R"({"model_type":"qwen2","vocab_size":96,"hidden_size":32,
      "intermediate_size":48,"num_hidden_layers":5,"num_attention_heads":4,
      "num_key_value_heads":2,"max_position_embeddings":64,"tie_word_embeddings":)" +
                         std::string(tied ? "true}" : "false}"),
                     "small");
}

constexpr BatchShape kShape{.sequences = 2, .sequence_length = 8};

TEST(BuildForward, parameters_bear_the_names_order_and_shapes_of_the_slices_tensors) {
  for (const bool tied : {false, true}) {
    const ModelConfig model = small(tied);
    for (const Slice& slice : {Slice{0, 5, true, true}, Slice{0, 2, true, false},
                               Slice{2, 4, false, false}, Slice{4, 5, false, true}}) {
      const Program program = build_forward(model, slice, kShape);
      const auto tensors = tensors_of(model, slice);
      const auto parameters = program.values_of(ValueRole::kParameter);
      ASSERT_EQ(parameters.size(), tensors.size());
      for (std::size_t index = 0; index < tensors.size(); ++index) {
        EXPECT_EQ(program.values[parameters[index]].name, tensors[index].name);
        EXPECT_EQ(program.values[parameters[index]].spec.shape, tensors[index].shape);
      }
    }
  }
}

TEST(BuildForward, bf16_ops_read_copies_of_f32_parameters) {
  BatchShape shape = kShape;
  shape.dtype = DType::kBf16;
  Program program = build_forward(small(false), {0, 5, true, true}, shape);
  differentiate(program);
  const auto copies = program.values_of(ValueRole::kCopy);
  ASSERT_EQ(copies.size(), program.values_of(ValueRole::kParameter).size());
  for (const int copy : copies) {
    const Value& parameter = program.values.at(program.values[copy].copy_of);
    EXPECT_EQ(parameter.spec.dtype, DType::kF32);
    EXPECT_EQ(program.values[copy].spec, (TensorSpec{DType::kBf16, parameter.spec.shape}));
    const int gradient = program.gradient_of(program.values[copy].copy_of);
    ASSERT_GE(gradient, 0) << parameter.name;
    EXPECT_EQ(program.values[gradient].spec, parameter.spec);
  }
  for (const auto* list : {&program.forward, &program.backward}) {
    for (const Instruction& instruction : *list) {
      for (const int value : instruction.inputs) {
        EXPECT_NE(program.values[value].role, ValueRole::kParameter) << instruction.op.name;
      }
    }
  }
}

TEST(BuildForward, slices_hold_each_tensor_once_but_for_a_tied_embedding) {
  for (const bool tied : {false, true}) {
    const ModelConfig model = small(tied);
    std::map<std::string, int> held;
    for (const Slice& slice : {Slice{0, 2, true, false}, Slice{2, 5, false, true}}) {
      for (const ModelTensor& tensor : tensors_of(model, slice)) {
        ++held[tensor.name];
      }
    }
    EXPECT_EQ(held.size(), tensors_of(model).size());
    for (const auto& [name, times] : held) {
      EXPECT_EQ(times, tied && name == "model.embed_tokens.weight" ? 2 : 1) << name;
    }
  }
}

TEST(BuildForward, every_value_is_written_before_it_is_read) {
  for (const Slice& slice : {Slice{0, 5, true, true}, Slice{1, 3, false, false}}) {
    for (const int width : {1, 2, 4}) {
      const bool split = width > 1;
      Program program = build_forward(small(true), slice, kShape, {width, 0, TensorLayout::kSplit});
      differentiate(program, {.recompute_layers = {1}, .selective_layers = {2}, .split = split});
      std::set<int> written;
      for (std::size_t value = 0; value < program.values.size(); ++value) {
        if (program.values[value].role != ValueRole::kTemporary) written.insert(value);
      }
      for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kBackwardWeight}) {
        for (const Instruction& instruction : program.phase(phase)) {
          for (const int input : instruction.inputs) {
            EXPECT_TRUE(written.contains(input)) << program.values[input].name;
          }
          written.insert(instruction.outputs.begin(), instruction.outputs.end());
        }
      }
      for (const int parameter : program.values_of(ValueRole::kParameter)) {
        EXPECT_GE(program.gradient_of(parameter), 0) << program.values[parameter].name;
      }
    }
  }
}

// Of a tensor, how many ranks of a group hold each element as it is stored.
std::map<std::string, std::vector<int>> holders(const ModelConfig& model, int width) {
  std::map<std::string, std::vector<int>> held;
  for (int place = 0; place < width; ++place) {
    for (const TensorShard& shard :
         shards_of(model, {0, 5, true, true}, {width, place, TensorLayout::kSplit})) {
      auto& counts = held[shard.tensor.name];
      counts.resize(static_cast<std::size_t>(shard.tensor.elements()));
      for (std::int64_t element = shard.first; element < shard.end(); ++element) {
        ++counts[static_cast<std::size_t>(element)];
      }
    }
  }
  return held;
}

TEST(Shards, of_a_group_hold_each_element_once_but_for_what_is_replicated) {
  const ModelConfig model = small(false);  // 2 key heads, vocabulary 96
  for (const int width : {1, 2, 3, 4, 5}) {
    for (const auto& [name, counts] : holders(model, width)) {
      const bool whole = name.find("norm") != std::string::npos;
      const bool keys =
          name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos;
      if (keys && width > 2 && width % 2 != 0) continue;  // no such plan
      const int times = whole ? width : keys && width > 2 ? width / 2 : 1;
      EXPECT_EQ(counts, std::vector<int>(counts.size(), times)) << name << " width " << width;
    }
  }
}

TEST(HeldElements, are_those_of_the_slices_program) {
  for (const bool tied : {false, true}) {
    const ModelConfig model = small(tied);
    for (const int width : {1, 2, 4}) {
      const TensorParallel parallel{width, width - 1,
                                    width > 1 ? TensorLayout::kSplit : TensorLayout::kWhole};
      const HeldElements held(model, parallel);
      for (const Slice& slice : {Slice{0, 5, true, true}, Slice{0, 2, true, false},
                                 Slice{2, 4, false, false}, Slice{3, 5, false, true}}) {
        const Program program = build_forward(model, slice, kShape, parallel);
        std::int64_t elements = 0;
        for (const int value : program.values_of(ValueRole::kParameter)) {
          elements += program.values[value].spec.elements();
        }
        EXPECT_EQ(held.of(slice), elements) << "tied " << tied << " width " << width;
      }
    }
  }
}

TEST(Shards, stored_transposed_start_as_the_same_model) {
  const ModelConfig model = small(false);
  for (const TensorShard& shard :
       shards_of(model, {1, 2, false, false}, {2, 1, TensorLayout::kSplit})) {
    if (!shard.transposed) continue;
    std::vector<float> whole(static_cast<std::size_t>(shard.tensor.elements()));
    write_initial_values(model, shard.tensor, 7, 0, whole);
    std::vector<float> stored(static_cast<std::size_t>(shard.count));
    write_initial_values(model, shard, 7, shard.first, stored);
    const std::int64_t out = shard.tensor.shape[0];
    const std::int64_t in = shard.tensor.shape[1];
    ASSERT_EQ(shard.shape(), (std::vector<std::int64_t>{in / 2, out}));
    for (std::int64_t row = 0; row < in / 2; ++row) {
      for (std::int64_t column = 0; column < out; ++column) {
        ASSERT_EQ(stored[row * out + column], whole[column * in + in / 2 + row]);
      }
    }
  }
}

// Two group ops in a layer each way, one for the embedding, one each way for the head
// (Megatron-LM).
TEST(BuildForward, a_group_sums_twice_a_layer_in_each_pass) {
  Program program =
      build_forward(small(true), {0, 5, true, true}, kShape, {2, 1, TensorLayout::kSplit});
  differentiate(program);
  std::map<Phase, std::vector<GroupKind>> kinds;
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    for (const Instruction& instruction : program.phase(phase)) {
      const auto* start = std::get_if<GroupStart>(&instruction.op.body);
      if (start != nullptr) kinds[phase].push_back(start->kind);
    }
  }
  std::vector<GroupKind> forward(11, GroupKind::kAllReduce);
  forward.push_back(GroupKind::kAllGather);
  EXPECT_EQ(kinds[Phase::kForward], forward);
  EXPECT_EQ(kinds[Phase::kBackward], std::vector<GroupKind>(11, GroupKind::kAllReduce));
}

TEST(RopeTable, holds_cosines_then_sines_of_each_position) {
  const ModelConfig model = small(true);
  const auto table = rope_table(model, 64);
  const std::int64_t half = model.head_dim / 2;
  EXPECT_EQ(table[0], 1.0F);
  EXPECT_EQ(table[half], 0.0F);
  const double angle = 63 * std::pow(1e4, -2.0 * 3 / 8);
  EXPECT_FLOAT_EQ(table[63 * 8 + 3], static_cast<float>(std::cos(angle)));
  EXPECT_FLOAT_EQ(table[63 * 8 + half + 3], static_cast<float>(std::sin(angle)));
}

TEST(InitialValues, do_not_depend_on_how_a_tensor_is_cut) {
  const ModelConfig model = small(false);
  const ModelTensor tensor = tensors_of(model)[1];
  const ModelTensor matrix = tensors_of(model)[0];
  std::vector<float> whole(static_cast<std::size_t>(matrix.elements()));
  write_initial_values(model, matrix, 7, 0, whole);
  std::vector<float> part(101);
  write_initial_values(model, matrix, 7, 333, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 333));
  double sum = 0;
  double squares = 0;
  for (const float value : whole) {
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(whole.size());
  EXPECT_NEAR(sum / n, 0, 0.02 / std::sqrt(n) * 4);
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.001);
  std::vector<float> gain(static_cast<std::size_t>(tensor.elements()));
  write_initial_values(model, tensor, 7, 0, gain);
  EXPECT_EQ(gain, std::vector<float>(gain.size(), 1.0F));
}

}  // namespace
}  // namespace hethub
