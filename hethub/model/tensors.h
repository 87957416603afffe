#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hethub/model/config.h"

namespace hethub {

/// Transformer layers [begin, end), with what stands before and after them.
struct Slice {
  int begin = 0;
  int end = 0;
  bool embedding = false;  ///< it turns tokens into the first layer's input
  bool head = false;       ///< it ends in the loss

  int layers() const { return end - begin; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// What a trained tensor starts as.
enum class InitialValue : std::uint8_t { kNormal, kZeros, kOnes };

/// How tensor parallel splits a tensor.
enum class TensorSplit : std::uint8_t {
  kNone,      ///< every rank of the group holds it
  kKeyHeads,  ///< by rows, whole key heads; with fewer of them than ranks, several ranks hold one
  kRows,      ///< by rows: its product is split by columns
  kColumns,   ///< by columns: its product is one rank's part of a sum
  kExperts,   ///< by rows, whole experts
};

/// One logical tensor: its name and its shape, whatever plan trains it. Names are those of Hugging
/// Face's Llama files, and shapes [out, in], for every family: file_parts.h says where a family's
/// files have it.
struct ModelTensor {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  InitialValue initial = InitialValue::kNormal;
  TensorSplit split = TensorSplit::kNone;
  double scale = 1;  ///< of kNormal's starting values

  std::int64_t elements() const;

  /// Whether weight decay applies: to matrices (the embedding and the head too), not to norms and
  /// biases.
  bool decays() const { return shape.size() >= 2; }
};

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kPositionsName = "model.embed_positions.weight";
inline constexpr const char* kHeadName = "lm_head.weight";

/// All tensors of the model in the order that every plan keeps: embedding, layers, norm, head.
std::vector<ModelTensor> tensors_of(const ModelConfig& model);

/// Those that a slice holds, in the same order. A tied embedding is held by a slice with the
/// embedding and by one with the head.
std::vector<ModelTensor> tensors_of(const ModelConfig& model, const Slice& slice);

/// Elements [first, first + values.size()) of a tensor's starting values: a pure function of seed,
/// name and index, so that every plan starts from the same model.
void write_initial_values(const ModelConfig& model, const ModelTensor& tensor, std::uint64_t seed,
                          std::int64_t first, std::span<float> values);

}  // namespace hethub
