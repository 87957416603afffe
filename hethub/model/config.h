#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hethub/model/rope.h"

namespace hethub {

/// A decoder-only transformer as its Hugging Face config.json describes it, defaults filled in.
struct ModelConfig {
  std::string family = {};  ///< config.json's model_type: a row of README's table of families
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  int layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;  ///< of layer norms too
  double rope_theta = 1e4;
  RopeScaling rope_scaling = {};
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool qk_norm = false;  ///< an RMS norm of each head's queries and keys, before they are rotated
  bool layer_norm = false;  ///< layer norms with a bias, in place of RMS norms
  bool biases = false;      ///< of every matrix but embeddings and head
  bool gelu = false;  ///< an MLP of two matrices around GELU, in place of a gated one of three

  /// A table of max_position_embeddings positions that is added to the embedding, in place of
  /// rotations.
  bool learned_positions = false;
  double residual_scale = 1;           ///< of the starting values of what each layer adds
  std::int64_t experts = 0;            ///< MLPs of a layer that tokens choose from; 0: one for all
  std::int64_t experts_per_token = 0;  ///< how many each token chooses
  double balance = 0;                  ///< weight of the experts' balance in the gradient
  std::vector<std::int64_t> windows = {};  ///< per layer: positions a token sees; 0 means all
  std::string json = {};                   ///< the file's own text, for export
  std::vector<std::string> warnings = {};  ///< what was read but has no effect, for the user
};

/// Reads a config.json (`path` may also be the folder that holds it). Missing and null fields take
/// the defaults of the family. Throws kMissingInput, kCorruptData, or kInvalidConfig naming the
/// field: for a value that cannot be, and for a feature that cannot be trained.
ModelConfig read_model(const std::filesystem::path& path);

/// The same from the file's text; `name` is the file's name in errors.
ModelConfig parse_model(const std::string& text, const std::string& name);

/// What keeps one model from going on with the other's parameters: "hidden_size (64, not 128)" for
/// each field in which they differ, first that of `a`; empty if they are the same model.
std::vector<std::string> differing_fields(const ModelConfig& a, const ModelConfig& b);

/// Trained numbers in all; a tied embedding counts once.
std::int64_t parameter_count(const ModelConfig& model);

/// Those of them that work on a token: of the experts, the ones that it chooses.
std::int64_t active_parameter_count(const ModelConfig& model);

/// FLOPs of a token's forward and backward pass: 6 · active parameters + 12 · layers · heads ·
/// head_dim · sequence_length (attention counted in full, nothing for recompute). Source: Chowdhery
/// et al., "PaLM", JMLR 2023, appendix B.
double model_flops_per_token(const ModelConfig& model, std::int64_t sequence_length);

}  // namespace hethub
