#include "hethub/predict/layer_activations.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "hethub/base/text.h"

namespace hethub {
namespace {

ModelConfig golden(const std::string& name) {
  return read_model(std::filesystem::path(HETHUB_TEST_DATA) / "golden" / name);
}

TEST(LayerActivations, a_layer_keeps_no_more_than_the_formula_and_its_statistics) {
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "gpt2", "window", "deep"}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(text(name, ' ', name_of(dtype)));
      const LayerActivations layer =
          layer_activations(golden(name), {.sequences = 3, .sequence_length = 24, .dtype = dtype});
      EXPECT_GT(layer.formula_bytes, 0);
      EXPECT_LE(layer.kept_bytes, layer.formula_bytes + layer.statistics_bytes);
    }
  }
}

// Table 2 of the source, with the GPT whose MLP is four times as wide: 34 without 2 of dropout.
TEST(LayerActivations, of_gpt_the_formula_is_32_bytes_of_each_element_of_the_stream) {
  ModelConfig gpt = golden("gpt2");
  gpt.intermediate_size = 4 * gpt.hidden_size;
  const BatchShape shape{.sequences = 2, .sequence_length = 16, .dtype = DType::kBf16};
  EXPECT_EQ(layer_activations(gpt, shape).formula_bytes, 32 * 2 * 16 * gpt.hidden_size);
}

TEST(LayerActivations, a_mixture_of_experts_has_no_formula) {
  const LayerActivations layer = layer_activations(golden("mixtral"), {.sequence_length = 16});
  EXPECT_EQ(layer.formula_bytes, 0);
  EXPECT_GT(layer.kept_bytes, 0);
}

}  // namespace
}  // namespace hethub
