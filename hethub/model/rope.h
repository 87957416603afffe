#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hethub {

struct ModelConfig;
class ConfigFields;

/// How rotary position embeddings are stretched to longer sequences than a model began with.
enum class RopeStretch : std::uint8_t { kNone, kLinear, kLlama3, kYarn };

/// config.json's "rope_scaling", or what "rope_parameters" says of it. The fields of other kinds of
/// stretch than `stretch` keep their values.
struct RopeScaling {
  RopeStretch stretch = RopeStretch::kNone;
  double factor = 1;
  double original_positions = 0;  ///< kLlama3, kYarn: those that the model began with
  double low_freq_factor = 0;     ///< kLlama3
  double high_freq_factor = 0;    ///< kLlama3
  double beta_fast = 32;          ///< kYarn: rotations above which a frequency stays as it is
  double beta_slow = 1;           ///< kYarn: rotations below which it is stretched whole
  double magnitude = 1;           ///< kYarn: multiplies cosines and sines

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// "llama3, factor 8, ..." for messages; "none".
std::string text_of(const RopeScaling& scaling);

/// Fills rope_scaling of `model`, whose other fields are there, and rope_theta where the file says
/// it beside the scaling. Throws kInvalidConfig, naming the field, for a kind that cannot be
/// trained, a key that this kind has not, a value that cannot be, and two places that disagree.
void read_rope(const ConfigFields& fields, ModelConfig& model);

/// The angle per position of each pair of a head's dimensions: head_dim/2 numbers, in radians.
/// Sources: Su et al., "RoFormer", 2021; linear: Chen et al., 2023; yarn: Peng et al., "YaRN",
/// ICLR 2024; llama3: the Llama 3.1 release.
std::vector<double> rope_frequencies(const ModelConfig& model);

/// Cosines, then sines, of each position's angles, times the magnitude: [positions, head_dim].
std::vector<float> rope_table(const ModelConfig& model, std::int64_t positions);

}  // namespace hethub
