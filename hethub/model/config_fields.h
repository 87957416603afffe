#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "hethub/base/json.h"
#include "hethub/model/config.h"

namespace hethub {

/// Reads the fields of one config.json for a family, with errors that name file and field.
class ConfigFields {
 public:
  ConfigFields(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  std::int64_t count(std::string_view field, std::int64_t fallback) const;  ///< >= 1
  double real(std::string_view field, double fallback) const;
  bool flag(std::string_view field, bool fallback) const;
  std::string word(std::string_view field, const std::string& fallback) const;
  bool has(std::string_view field) const;      ///< there, and not null
  bool is_null(std::string_view field) const;  ///< there, and null
  const Json& at(std::string_view field) const;

  /// Throws kInvalidConfig: `field` asks for what cannot be trained.
  [[noreturn]] void refuse(std::string_view field, const std::string& found,
                           const std::string& expected) const;

  /// Refuses unless the field is missing or has this value.
  void only(std::string_view field, bool value) const;
  void only(std::string_view field, double value) const;

 private:
  const Json& json_;
  std::string name_;
};

/// What differs between families that share the Llama layout; the fields' defaults are those of the
/// Hugging Face library.
struct FamilyDefaults {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t layers = 32;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 0;  ///< where the field is absent; 0: as many as heads
  std::int64_t head_dim = 0;  ///< where the field is absent; 0: hidden_size / heads
  std::int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 1e4;
  bool reads_head_dim = true;  ///< whether head_dim is a field of this family
  bool experts = false;        ///< whether num_local_experts is
};

/// Refuses "layer_types", where it is there, unless it says of each layer what `model` holds: full
/// attention, or a window.
void check_layer_types(const ConfigFields& fields, const ModelConfig& model);

/// The fields that all Llama-like families have; throws as read_model does.
ModelConfig read_llama_like(const ConfigFields& fields, const FamilyDefaults& defaults);

/// Refuses what changes the mathematics and cannot be trained, whatever the family.
void check_neutral(const ConfigFields& fields, bool experts = false);

// One file a family.
ModelConfig read_gpt2(const ConfigFields& fields);
ModelConfig read_llama(const ConfigFields& fields);
ModelConfig read_mistral(const ConfigFields& fields);
ModelConfig read_mixtral(const ConfigFields& fields);
ModelConfig read_qwen2(const ConfigFields& fields);
ModelConfig read_qwen3(const ConfigFields& fields);

/// The windows of Qwen's families: of the layers that "layer_types" names, or of those from
/// "max_window_layers" on; none without "use_sliding_window".
void read_qwen_windows(const ConfigFields& fields, ModelConfig& model);

}  // namespace hethub
