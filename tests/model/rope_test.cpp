#include "hethub/model/rope.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/base/text.h"
#include "hethub/model/config.h"

namespace hethub {
namespace {

ModelConfig model_with(const std::string& fields) {
  return parse_model(
      R"({"model_type":"llama","hidden_size":512,"num_attention_heads":4,)" + fields + "}",
      "config.json");
}

std::string refusal(const std::string& fields) {
  try {
    model_with(fields);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Expected {
  std::size_t pair;
  double frequency;
};

void expect_frequencies(const ModelConfig& model, const std::vector<Expected>& expected) {
  const std::vector<double> found = rope_frequencies(model);
  ASSERT_EQ(found.size(), 64U);
  for (const Expected& one : expected) {
    EXPECT_NEAR(found[one.pair], one.frequency, 1e-13 * one.frequency) << one.pair;
  }
}

constexpr const char* kLlama31 =
    R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,
       "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})";

// The numbers were computed from the published formulas by a program of its own.
TEST(Rope, llama3_keeps_fast_frequencies_and_divides_slow_ones) {
  const ModelConfig model = model_with(kLlama31);
  expect_frequencies(model, {{0, 1.0},
                             {20, 0.016560440080994446},
                             {29, 0.002166570763503359},
                             {31, 0.0008567514129196321},
                             {33, 0.00031269375038406517},
                             {36, 7.78465527393245e-05},
                             {63, 3.068925988914511e-07}});
  EXPECT_EQ(model.rope_scaling.magnitude, 1);
}

TEST(Rope, yarn_blends_between_its_betas_and_raises_the_magnitude) {
  const ModelConfig model = model_with(
      R"("rope_theta":1e6,"max_position_embeddings":131072,"rope_scaling":{"type":"yarn",
         "factor":4.0,"original_max_position_embeddings":32768})");
  expect_frequencies(model, {{0, 1.0},
                             {20, 0.01333521432163324},
                             {24, 0.005375321490790102},
                             {30, 0.0010643609812470017},
                             {36, 0.00017984115587395423},
                             {40, 4.445698525097307e-05},
                             {63, 3.102344401879299e-07}});
  EXPECT_NEAR(model.rope_scaling.magnitude, 1.138629436111989, 1e-15);
  const auto table = rope_table(model, 4);
  EXPECT_FLOAT_EQ(table[0], 1.138629436F);
  EXPECT_FLOAT_EQ(table[3 * 128 + 20],
                  static_cast<float>(1.138629436111989 * std::cos(3 * 0.01333521432163324)));
}

TEST(Rope, linear_divides_every_frequency) {
  const auto plain = rope_frequencies(model_with(R"("rope_theta":10000.0)"));
  const auto slow = rope_frequencies(model_with(R"("rope_scaling":{"type":"linear","factor":2})"));
  for (std::size_t pair = 0; pair < plain.size(); ++pair) {
    EXPECT_DOUBLE_EQ(slow[pair], plain[pair] / 2);
  }
}

TEST(Rope, both_names_are_read_and_must_agree) {
  const std::string linear = R"({"rope_type":"linear","factor":2.0})";
  const ModelConfig both =
      model_with(text(R"("rope_scaling":)", linear, R"(,"rope_parameters":)", linear));
  EXPECT_EQ(both.rope_scaling.factor, 2);
  EXPECT_NE(refusal(text(R"("rope_scaling":)", linear,
                         R"(,"rope_parameters":{"rope_type":"linear","factor":4.0})"))
                .find("rope_parameters"),
            std::string::npos);
}

TEST(Rope, what_cannot_be_is_refused_by_name) {
  const std::pair<std::string, std::string> cases[] = {
      {R"("rope_scaling":{"rope_type":"longrope","factor":2})", "rope_scaling.rope_type"},
      {R"("rope_scaling":{"rope_type":"dynamic","factor":2})", "rope_scaling.rope_type"},
      {R"("rope_scaling":{"rope_type":"linear"})", "rope_scaling.factor"},
      {R"("rope_scaling":{"rope_type":"linear","factor":0.5})", "rope_scaling.factor"},
      {R"("rope_scaling":{"rope_type":"linear","factor":2,"low_freq_factor":1})",
       "rope_scaling.low_freq_factor"},
      {R"("rope_scaling":{"rope_type":"llama3","factor":8})", "original_max_position_embeddings"},
      {R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,
          "high_freq_factor":4,"original_max_position_embeddings":8192})",
       "rope_scaling.high_freq_factor"},
      {R"("rope_scaling":{"rope_type":"yarn","factor":4,"mscale":0.7})", "rope_scaling.mscale"},
      {R"("rope_scaling":{"rope_type":"yarn","factor":4,"beta_fast":0.5})",
       "rope_scaling.beta_fast"},
      {R"("rope_scaling":7)", "rope_scaling"}};
  for (const auto& [fields, name] : cases) {
    EXPECT_NE(refusal(fields).find(name), std::string::npos) << fields << ": " << refusal(fields);
  }
}

// A checkpoint of the one must not go on as the other.
TEST(Rope, scaling_tells_models_apart) {
  const auto fields = differing_fields(model_with(kLlama31), model_with(R"("rope_theta":5e5)"));
  ASSERT_EQ(fields.size(), 1U);
  EXPECT_EQ(fields[0],
            "rope_scaling (llama3, factor 8, original positions 8192, frequency factors 1 and 4, "
            "not none)");
}

}  // namespace
}  // namespace hethub
