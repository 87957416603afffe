#include "hethub/model/file_parts.h"

#include <map>

#include <gtest/gtest.h>

namespace hethub {
namespace {

ModelConfig small(const std::string& family) {
  if (family == "gpt2") {
    return parse_model(
        R"({"model_type":"gpt2","n_embd":8,"n_layer":2,"n_head":2,"n_positions":5,"vocab_size":7})",
        "c");
  }
  return parse_model(R"({"model_type":")" + family + R"(","vocab_size":7,"hidden_size":8,
      "intermediate_size":6,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2)" +
                         (family == "mixtral" ? R"(,"num_local_experts":3})" : "}"),
                     "c");
}

// Every row of every tensor of the files is in one of the model's, and the other way round.
TEST(FileParts, share_out_each_familys_files_without_gap_or_overlap) {
  for (const std::string family : {"llama", "gpt2", "mixtral"}) {
    const ModelConfig model = small(family);
    std::int64_t elements = 0;
    for (const FileTensor& file : file_tensors_of(model)) {
      std::map<std::int64_t, std::int64_t> ends;  // by first row of the file's tensor
      for (const auto& [tensor, part] : file.parts) {
        EXPECT_EQ(part.shape, file.shape) << file.name;
        ends[part.first] = part.first + part.rows;
        elements += part.rows * (tensor.elements() / tensor.shape[0]);
      }
      std::int64_t next = 0;
      for (const auto& [first, end] : ends) {
        EXPECT_EQ(first, next) << file.name;
        next = end;
      }
      EXPECT_EQ(next, file.shape[file.transposed ? 1 : 0]) << file.name;
    }
    EXPECT_EQ(elements, parameter_count(model)) << family;
  }
}

TEST(FileParts, bear_the_names_of_hugging_faces_files) {
  std::map<std::string, FileTensor> files;
  for (const std::string family : {"gpt2", "mixtral"}) {
    for (const FileTensor& file : file_tensors_of(small(family))) {
      files[family + " " + file.name] = file;
    }
  }
  const FileTensor& together = files.at("gpt2 transformer.h.1.attn.c_attn.weight");
  EXPECT_TRUE(together.transposed);
  EXPECT_EQ(together.shape, (std::vector<std::int64_t>{8, 24}));
  EXPECT_EQ(together.parts.size(), 3U);
  EXPECT_FALSE(files.at("gpt2 transformer.h.1.attn.c_attn.bias").transposed);
  for (const char* name :
       {"gpt2 transformer.wte.weight", "gpt2 transformer.wpe.weight", "gpt2 transformer.ln_f.bias",
        "gpt2 transformer.h.0.ln_1.weight", "gpt2 transformer.h.0.attn.c_proj.bias",
        "gpt2 transformer.h.0.mlp.c_fc.weight", "gpt2 transformer.h.0.mlp.c_proj.weight",
        "mixtral model.layers.0.block_sparse_moe.gate.weight",
        "mixtral model.layers.1.block_sparse_moe.experts.2.w2.weight", "mixtral lm_head.weight"}) {
    EXPECT_TRUE(files.contains(name)) << name;
  }
  EXPECT_EQ(files.size(), 4U + 2 * 12 + 3 + 2 * (7 + 3 * 3));
}

}  // namespace
}  // namespace hethub
