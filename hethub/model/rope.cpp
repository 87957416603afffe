#include "hethub/model/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "hethub/base/text.h"
#include "hethub/model/config.h"
#include "hethub/model/config_fields.h"

namespace hethub {
namespace {

struct StretchRow {
  std::string_view name;
  RopeStretch stretch;
  std::vector<std::string_view> keys;  // of config.json, beside those that all have
};

const std::vector<StretchRow>& stretches() {
  static const std::vector<StretchRow> kRows = {
      {"default", RopeStretch::kNone, {}},
      {"linear", RopeStretch::kLinear, {"factor"}},
      {"llama3",
       RopeStretch::kLlama3,
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"yarn",
       RopeStretch::kYarn,
       {"factor", "beta_fast", "beta_slow", "attention_factor",
        "original_max_position_embeddings"}}};
  return kRows;
}

// Reads one of the two objects that may describe the stretch.
class ScalingReader {
 public:
  ScalingReader(const ConfigFields& fields, std::string_view key, const ModelConfig& model)
      : fields_(fields), key_(key), object_(fields.at(key)), model_(model) {
    if (!object_.is_object()) fields.refuse(key, object_.dump(), "null or an object");
  }

  RopeScaling read() const {
    const StretchRow& row = row_of(type());
    check_keys(row);
    RopeScaling made{.stretch = row.stretch};
    if (made.stretch == RopeStretch::kNone) return made;
    made.factor = number("factor", {}, 1);
    const auto positions = static_cast<double>(model_.max_position_embeddings);
    if (made.stretch == RopeStretch::kLlama3) {
      made.original_positions = number("original_max_position_embeddings", {}, 1);
      made.low_freq_factor = number("low_freq_factor", {}, 1e-6);
      made.high_freq_factor = number("high_freq_factor", {}, made.low_freq_factor);
      if (made.high_freq_factor == made.low_freq_factor) {
        refuse("high_freq_factor", text(made.high_freq_factor), "more than low_freq_factor");
      }
    }
    if (made.stretch == RopeStretch::kYarn) {
      made.original_positions = number("original_max_position_embeddings", positions, 1);
      made.beta_slow = number("beta_slow", 1, 1e-6);
      made.beta_fast = number("beta_fast", 32, made.beta_slow);
      made.magnitude = number("attention_factor", 0.1 * std::log(made.factor) + 1, 1e-6);
    }
    return made;
  }

  /// The object's own rope_theta, if it has one.
  std::optional<double> theta() const {
    if (!has("rope_theta")) return std::nullopt;
    return get_or<double>(object_, std::string(key_), "rope_theta", 0);
  }

 private:
  bool has(std::string_view name) const {
    const auto found = object_.find(std::string(name));
    return found != object_.end() && !found->is_null();
  }

  std::string type() const {
    const std::string where(key_);
    const auto old = get_or<std::string>(object_, where, "type", "default");
    return get_or<std::string>(object_, where, "rope_type", old);
  }

  const StretchRow& row_of(const std::string& name) const {
    std::string known;
    for (const StretchRow& row : stretches()) {
      if (row.name == name) return row;
      known += text(known.empty() ? "" : ", ", row.name);
    }
    refuse("rope_type", name, text("one of ", known, ": no other can be trained"));
  }

  void check_keys(const StretchRow& row) const {
    for (const auto& [name, value] : object_.items()) {
      const bool is_general = name == "type" || name == "rope_type" || name == "rope_theta";
      const bool is_neutral = value.is_null() || (name == "partial_rotary_factor" && value == 1);
      const bool is_known = std::find(row.keys.begin(), row.keys.end(), name) != row.keys.end();
      if (is_general || is_neutral || is_known) continue;
      const std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
      refuse(name, shown.size() > 40 ? "a long value" : shown,
             text("no such key for type ", row.name));
    }
  }

  double number(std::string_view name, std::optional<double> fallback, double least) const {
    if (!has(name) && !fallback) refuse(name, "nothing", "a number");
    const double value = get_or<double>(object_, std::string(key_), name, fallback.value_or(0));
    if (!std::isfinite(value) || value < least) {
      refuse(name, text(value), text("a number of ", least, " or more"));
    }
    return value;
  }

  [[noreturn]] void refuse(std::string_view name, const std::string& found,
                           const std::string& expected) const {
    fields_.refuse(text(key_, ".", name), found, expected);
  }

  const ConfigFields& fields_;
  std::string_view key_;
  const Json& object_;
  const ModelConfig& model_;
};

double llama3_frequency(const RopeScaling& scaling, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double turns = scaling.original_positions / wavelength;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

// The dimension, in pairs, whose angle turns round `rotations` times over the original positions.
double yarn_dimension(const ModelConfig& model, double rotations) {
  const double positions = model.rope_scaling.original_positions;
  return static_cast<double>(model.head_dim) *
         std::log(positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(model.rope_theta));
}

double yarn_frequency(const ModelConfig& model, std::int64_t pair, double frequency) {
  const RopeScaling& scaling = model.rope_scaling;
  const double low = std::max(std::floor(yarn_dimension(model, scaling.beta_fast)), 0.0);
  const double last = static_cast<double>(model.head_dim) - 1;
  double high = std::min(std::ceil(yarn_dimension(model, scaling.beta_slow)), last);
  if (high == low) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretched * frequency / scaling.factor + (1 - stretched) * frequency;
}

}  // namespace

std::string text_of(const RopeScaling& scaling) {
  if (scaling.stretch == RopeStretch::kNone) return "none";
  const auto row = std::find_if(stretches().begin(), stretches().end(), [&](const StretchRow& one) {
    return one.stretch == scaling.stretch;
  });
  std::string out = text(row->name, ", factor ", scaling.factor);
  if (scaling.stretch == RopeStretch::kLinear) return out;
  out += text(", original positions ", scaling.original_positions);
  if (scaling.stretch == RopeStretch::kLlama3) {
    return out +
           text(", frequency factors ", scaling.low_freq_factor, " and ", scaling.high_freq_factor);
  }
  return out + text(", betas ", scaling.beta_fast, " and ", scaling.beta_slow, ", magnitude ",
                    scaling.magnitude);
}

void read_rope(const ConfigFields& fields, ModelConfig& model) {
  bool is_known = false;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key)) continue;
    const ScalingReader reader(fields, key, model);
    const RopeScaling scaling = reader.read();
    if (is_known && !(scaling == model.rope_scaling)) {
      fields.refuse(key, text_of(scaling), text(text_of(model.rope_scaling), ", as rope_scaling"));
    }
    model.rope_scaling = scaling;
    is_known = true;
    const double theta = reader.theta().value_or(model.rope_theta);
    if (fields.has("rope_theta") && theta != model.rope_theta) {
      fields.refuse("rope_theta", text(model.rope_theta, " beside ", key, ".rope_theta ", theta),
                    "the same value in both");
    }
    model.rope_theta = theta;
  }
  if (!(model.rope_theta > 1) || !std::isfinite(model.rope_theta)) {
    fields.refuse("rope_theta", text(model.rope_theta), "a number above 1");
  }
}

std::vector<double> rope_frequencies(const ModelConfig& model) {
  std::vector<double> frequencies;
  for (std::int64_t pair = 0; pair < model.head_dim / 2; ++pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(model.head_dim);
    const double frequency = std::pow(model.rope_theta, exponent);
    switch (model.rope_scaling.stretch) {
      case RopeStretch::kNone:
        frequencies.push_back(frequency);
        break;
      case RopeStretch::kLinear:
        frequencies.push_back(frequency / model.rope_scaling.factor);
        break;
      case RopeStretch::kLlama3:
        frequencies.push_back(llama3_frequency(model.rope_scaling, frequency));
        break;
      case RopeStretch::kYarn:
        frequencies.push_back(yarn_frequency(model, pair, frequency));
        break;
    }
  }
  return frequencies;
}

// Of each frequency, every kBlock-th position's angle and the first kBlock ones; the rest by the
// rule for the sum of two angles.
std::vector<float> rope_table(const ModelConfig& model, std::int64_t positions) {
  using Turn = std::complex<double>;
  constexpr std::int64_t kBlock = 64;
  const std::int64_t half = model.head_dim / 2;
  const std::vector<double> frequencies = rope_frequencies(model);
  std::vector<float> table(static_cast<std::size_t>(positions * model.head_dim));
  std::vector<Turn> small(kBlock * half);  // by position and frequency
  for (std::int64_t position = 0; position < kBlock; ++position) {
    for (std::int64_t j = 0; j < half; ++j) {
      small[position * half + j] = std::polar(1.0, static_cast<double>(position) * frequencies[j]);
    }
  }
  std::vector<Turn> large(half);
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t j = 0; position % kBlock == 0 && j < half; ++j) {
      large[j] =
          std::polar(model.rope_scaling.magnitude, static_cast<double>(position) * frequencies[j]);
    }
    const Turn* rest = small.data() + position % kBlock * half;
    float* row = table.data() + position * model.head_dim;
    for (std::int64_t j = 0; j < half; ++j) {
      row[j] =
          static_cast<float>(large[j].real() * rest[j].real() - large[j].imag() * rest[j].imag());
      row[half + j] =
          static_cast<float>(large[j].imag() * rest[j].real() + large[j].real() * rest[j].imag());
    }
  }
  return table;
}

}  // namespace hethub
