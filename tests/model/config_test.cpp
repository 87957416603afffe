#include "hethub/model/config.h"

#include <gtest/gtest.h>

#include "hethub/base/error.h"
#include "hethub/model/tensors.h"

namespace hethub {
namespace {

// The tiny model that many small cases start from; `more` adds or replaces fields.
std::string tiny(const std::string& more = "") {
  return R"({"model_type":"llama","vocab_size":256,"hidden_size":64,"intermediate_size":128,
    "num_hidden_layers":4,"num_attention_heads":4,"max_position_embeddings":128,
    "rms_norm_eps":1e-5)" +
         more + "}";
}

std::string refusal(const std::string& more) {
  try {
    parse_model(tiny(more), "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidConfig) << error.what();
    return error.what();
  }
  ADD_FAILURE() << more << " was accepted";
  return "";
}

TEST(Config, missing_and_null_kv_heads_mean_as_many_as_heads) {
  EXPECT_EQ(parse_model(tiny(), "c").kv_heads, 4);
  EXPECT_EQ(parse_model(tiny(R"(,"num_key_value_heads":null)"), "c").kv_heads, 4);
  EXPECT_EQ(parse_model(tiny(R"(,"num_key_value_heads":2)"), "c").kv_heads, 2);
}

// 2·256·64 + 4·(4·64·64 + 3·64·128 + 2·64) + 64 = 197184
TEST(Config, counts_parameters_and_a_tied_embedding_once) {
  EXPECT_EQ(parameter_count(parse_model(tiny(), "c")), 197184);
  EXPECT_EQ(parameter_count(parse_model(tiny(R"(,"tie_word_embeddings":true)"), "c")), 180800);
}

TEST(Config, takes_each_familys_own_defaults) {
  const ModelConfig llama = parse_model(R"({"model_type":"llama"})", "c");
  EXPECT_EQ(llama.intermediate_size, 11008);
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.rope_theta, 1e4);
  const ModelConfig mistral = parse_model(R"({"model_type":"mistral"})", "c");
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.windows.at(0), 4096);
  EXPECT_EQ(parse_model(R"({"model_type":"mistral","sliding_window":null})", "c").windows.at(0), 0);
  const ModelConfig qwen = parse_model(R"({"model_type":"qwen2"})", "c");
  EXPECT_EQ(qwen.vocab_size, 151936);
  EXPECT_TRUE(qwen.qkv_bias);
  EXPECT_EQ(qwen.windows.at(31), 0);
}

// The counts that the models' publishers give.
TEST(Config, published_sizes_of_gpt2_gpt3_and_mixtral_come_out) {
  const ModelConfig gpt2 = parse_model(R"({"model_type":"gpt2"})", "c");
  EXPECT_TRUE(gpt2.tie_word_embeddings);
  EXPECT_EQ(gpt2.intermediate_size, 3072);
  EXPECT_EQ(parameter_count(gpt2), 124'439'808);
  const ModelConfig gpt3 = parse_model(
      R"({"model_type":"gpt2","n_embd":12288,"n_layer":96,"n_head":96,"n_positions":2048})", "c");
  EXPECT_NEAR(static_cast<double>(parameter_count(gpt3)), 174.6e9, 0.1e9);
  const ModelConfig mixtral = parse_model(R"({"model_type":"mixtral"})", "c");
  EXPECT_EQ(mixtral.windows.at(0), 0);
  EXPECT_EQ(parameter_count(mixtral), 46'702'792'704);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(mixtral)), 12.9e9, 0.05e9);
}

// The defaults of the Hugging Face library, field by field.
TEST(Config, what_a_file_leaves_out_is_the_family_s_default) {
  struct Row {
    const char* family;
    std::int64_t vocab, hidden, intermediate, layers, heads, keys, head_dim, positions;
    double eps, theta;
    bool tied;
  };
  for (const Row& row :
       {Row{"llama", 32000, 4096, 11008, 32, 32, 32, 128, 2048, 1e-6, 1e4, false},
        Row{"qwen2", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, 1e4, false},
        Row{"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, 1e4, false},
        Row{"mistral", 32000, 4096, 14336, 32, 32, 8, 128, 131072, 1e-6, 1e4, false},
        Row{"mixtral", 32000, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5, 1e6, false},
        Row{"gpt2", 50257, 768, 3072, 12, 12, 12, 64, 1024, 1e-5, 1e4, true}}) {
    SCOPED_TRACE(row.family);
    const ModelConfig model = parse_model(text(R"({"model_type":")", row.family, "\"}"), "c");
    EXPECT_EQ(model.vocab_size, row.vocab);
    EXPECT_EQ(model.hidden_size, row.hidden);
    EXPECT_EQ(model.intermediate_size, row.intermediate);
    EXPECT_EQ(model.layers, row.layers);
    EXPECT_EQ(model.heads, row.heads);
    EXPECT_EQ(model.kv_heads, row.keys);
    EXPECT_EQ(model.head_dim, row.head_dim);
    EXPECT_EQ(model.max_position_embeddings, row.positions);
    EXPECT_EQ(model.rms_norm_eps, row.eps);
    EXPECT_EQ(model.rope_theta, row.theta);
    EXPECT_EQ(model.tie_word_embeddings, row.tied);
  }
}

TEST(Config, a_resume_is_told_of_another_balance_of_the_experts) {
  const auto model = [](const char* balance) {
    return parse_model(text(R"({"model_type":"mixtral","router_aux_loss_coef":)", balance, '}'),
                       "c");
  };
  const std::vector<std::string> differing = differing_fields(model("0.02"), model("0.0"));
  ASSERT_EQ(differing.size(), 1U);
  EXPECT_NE(differing[0].find("router_aux_loss_coef"), std::string::npos);
}

TEST(Config, gpt2_and_mixtral_refuse_what_cannot_be_trained_by_name) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("model_type":"gpt2","activation_function":"relu")", "activation_function"},
      {R"("model_type":"gpt2","scale_attn_by_inverse_layer_idx":true)",
       "scale_attn_by_inverse_layer_idx"},
      {R"("model_type":"gpt2","scale_attn_weights":false)", "scale_attn_weights"},
      {R"("model_type":"gpt2","add_cross_attention":true)", "add_cross_attention"},
      {R"("model_type":"gpt2","n_head":7)", "n_embd"},
      {R"("model_type":"mixtral","num_experts_per_tok":9)", "num_experts_per_tok"},
      {R"("model_type":"mixtral","num_local_experts":2000000000)", "num_local_experts"},
      {R"("model_type":"mixtral","router_jitter_noise":0.1)", "router_jitter_noise"},
      {R"("model_type":"mixtral","router_aux_loss_coef":-1.0)", "router_aux_loss_coef"}};
  for (const auto& [fields, field] : cases) {
    try {
      parse_model("{" + fields + "}", "c");
      ADD_FAILURE() << fields << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    }
  }
}

TEST(Config, gpt2s_dropout_is_left_out_and_said_so) {
  const ModelConfig model = parse_model(R"({"model_type":"gpt2","attn_pdrop":0.1})", "c");
  ASSERT_EQ(model.warnings.size(), 1U);
  EXPECT_NE(model.warnings[0].find("attn_pdrop"), std::string::npos);
}

TEST(Config, qwen2_windows_begin_at_max_window_layers) {
  const ModelConfig qwen = parse_model(
      R"({"model_type":"qwen2","num_hidden_layers":4,"use_sliding_window":true,
          "max_window_layers":3,"sliding_window":16})",
      "c");
  EXPECT_EQ(qwen.windows, (std::vector<std::int64_t>{0, 0, 0, 16}));
}

TEST(Config, head_dim_may_be_free_of_the_hidden_size) {
  const ModelConfig model = parse_model(tiny(R"(,"head_dim":32)"), "c");
  EXPECT_EQ(model.head_dim, 32);
  EXPECT_EQ(tensors_of(model)[2].shape, (std::vector<std::int64_t>{128, 64}));
}

TEST(Config, what_cannot_be_trained_is_refused_by_name) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(,"hidden_act":"gelu")", "hidden_act"},
      {R"(,"attention_bias":true)", "attention_bias"},
      {R"(,"mlp_bias":true)", "mlp_bias"},
      {R"(,"attention_dropout":0.1)", "attention_dropout"},
      {R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0})", "rope_scaling"},
      {R"(,"rope_parameters":{"rope_type":"longrope"})", "rope_parameters"},
      {R"(,"quantization_config":{"bits":4})", "quantization_config"},
      {R"(,"auto_map":{"AutoModel":"x.py"})", "auto_map"},
      {R"(,"num_local_experts":8)", "num_local_experts"},
      {R"(,"num_experts":64)", "num_experts"},
      {R"(,"n_routed_experts":"many")", "n_routed_experts"},
      {R"(,"sliding_window":16)", "sliding_window"},
      {R"(,"sliding_window":16,"use_sliding_window":true)", "sliding_window"},
      {R"(,"use_sliding_window":true)", "use_sliding_window"},
      {R"(,"layer_types":["full_attention","full_attention","full_attention",
          "sliding_attention"])",
       "layer_types"},
      {R"(,"layer_types":["full_attention"])", "layer_types"},
      {R"(,"layer_types":"full_attention")", "layer_types"},
      {R"(,"attention_chunk_size":8192)", "attention_chunk_size"},
      {R"(,"attn_logit_softcapping":50.0)", "attn_logit_softcapping"},
      {R"(,"kv_lora_rank":512)", "kv_lora_rank"},
      {R"(,"use_qk_norm":true)", "use_qk_norm"},
      {R"(,"partial_rotary_factor":0.5)", "partial_rotary_factor"},
      {R"(,"residual_multiplier":0.22)", "residual_multiplier"},
      {R"(,"num_key_value_heads":3)", "num_key_value_heads"},
      {R"(,"head_dim":17)", "head_dim"},
      {R"(,"rope_theta":0)", "rope_theta"},
      {R"(,"architectures":["MistralForCausalLM"])", "architectures"},
      {R"(,"bos_token_id":1,"initializer_range":"big")", "initializer_range"}};
  for (const auto& [more, field] : cases) {
    EXPECT_NE(refusal(more).find(field), std::string::npos) << more << ": " << refusal(more);
  }
}

TEST(Config, fields_with_the_value_that_changes_nothing_are_accepted) {
  const ModelConfig model =
      parse_model(tiny(R"(,"num_experts":0,"quantization_config":null,"sliding_window":null,
              "use_sliding_window":false,"partial_rotary_factor":1.0,"use_qk_norm":false,
              "layer_types":["full_attention","full_attention","full_attention","full_attention"])"),
                  "c");
  EXPECT_EQ(model.windows, std::vector<std::int64_t>(4, 0));
  EXPECT_EQ(parse_model(tiny(R"(,"sliding_window":16,"use_sliding_window":false)"), "c").windows,
            model.windows);
}

TEST(Config, a_familys_own_fields_may_not_contradict_each_other) {
  const auto refused = [](const std::string& file) -> std::string {
    try {
      parse_model(file, "c");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string qwen = R"({"model_type":"qwen2","num_hidden_layers":2,)";
  EXPECT_NE(refused(qwen + R"("head_dim":64})").find("c: head_dim"), std::string::npos);
  EXPECT_EQ(refused(qwen + R"("head_dim":128})"), "accepted");
  EXPECT_NE(refused(qwen + R"("layer_types":["full_attention","linear_attention"]})")
                .find("c: layer_types"),
            std::string::npos);
  const std::string mistral = R"({"model_type":"mistral","num_hidden_layers":2,)";
  const std::string windows = R"("layer_types":["sliding_attention","sliding_attention"])";
  EXPECT_EQ(refused(mistral + windows + "}"), "accepted");
  EXPECT_NE(refused(mistral + R"("sliding_window":null,)" + windows + "}").find("c: layer_types"),
            std::string::npos);
}

TEST(Config, models_that_differ_are_told_apart_by_both_values) {
  const ModelConfig one = parse_model(tiny(), "c");
  EXPECT_EQ(differing_fields(one, one), std::vector<std::string>{});
  EXPECT_EQ(differing_fields(one, parse_model(tiny(R"(,"tie_word_embeddings":true)"), "c")),
            std::vector<std::string>{"tie_word_embeddings (false, not true)"});
  EXPECT_EQ(differing_fields(one, parse_model(tiny(R"(,"head_dim":32)"), "c")),
            std::vector<std::string>{"head_dim (16, not 32)"});
}

TEST(Config, sizes_that_cannot_be_are_refused) {
  for (const char* value : {"0", "-4", "1e30", "18446744073709551616", "\"64\"", "64.5"}) {
    const std::string file = R"({"model_type":"llama","hidden_size":)" + std::string(value) + "}";
    EXPECT_THROW(parse_model(file, "c"), Error) << value;
  }
  EXPECT_THROW(parse_model(R"({"model_type":"bert"})", "c"), Error);
  EXPECT_THROW(parse_model("[]", "c"), Error);
}

TEST(Config, plain_rope_entries_and_unknown_fields_are_accepted) {
  const ModelConfig model = parse_model(
      tiny(R"(,"rope_scaling":null,"rope_parameters":{"rope_type":"default","rope_theta":5e5},
              "use_cache":true,"something_new":[1,2])"),
      "c");
  EXPECT_EQ(model.rope_theta, 5e5);
  EXPECT_NE(model.json.find("something_new"), std::string::npos);
}

}  // namespace
}  // namespace hethub
