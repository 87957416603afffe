#include "operands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tests/accel/numbers.h"

namespace hethub::conformance {
namespace {

double rounded(double value) { return static_cast<double>(static_cast<float>(value)); }

Values rounded(Values values) {
  for (double& value : values) {
    value = rounded(value);
  }
  return values;
}

void round_to(DType type, Values& values) {
  if (type != DType::kBf16 && type != DType::kF16) return;
  std::array<std::byte, 2> bits = {};
  for (double& value : values) {
    put(type, value, bits.data());
    value = taken(type, bits.data());
  }
}

// Makes tensors from one stream of random bits.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : bits_(seed) {}

  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits_() >> 11U) * 0x1p-53;
  }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(limit));
  }
  Values floats(std::int64_t count, double low = -2, double high = 2) {
    Values values(static_cast<std::size_t>(count));
    for (double& value : values) {
      value = rounded(uniform(low, high));
    }
    return values;
  }
  Values integers(std::int64_t count, std::int64_t limit) {
    Values values(static_cast<std::size_t>(count));
    for (double& value : values) {
      value = static_cast<double>(below(limit));
    }
    return values;
  }

 private:
  std::mt19937_64 bits_;
};

// One row in four is not counted; the first always is.
void ignore_some(Maker& make, Values& labels) {
  for (std::size_t row = 1; row < labels.size(); ++row) {
    if (make.below(4) == 0) labels[row] = -100;
  }
}

// What a forward op leaves, rounded to fp32.
template <typename T>
std::vector<Values> forward(const T& op, const std::vector<Values>& inputs) {
  std::vector<Values> outputs = reference({"forward", DType::kF32, op}, inputs);
  for (Values& values : outputs) {
    values = rounded(values);
  }
  return outputs;
}

// Starts of documents: a new one begins at about every fifth position.
Values document_starts(Maker& make, const Attention& op) {
  Values starts;
  for (std::int64_t row = 0; row < op.batch * op.seq; ++row) {
    const std::int64_t position = row % op.seq;
    const bool begins = position == 0 || make.below(5) == 0;
    starts.push_back(begins ? static_cast<double>(position) : starts.back());
  }
  return starts;
}

// One overload per op whose inputs are more than any floats; `in` holds any floats to begin with.

void shape(const Embedding& op, Maker& make, std::vector<Values>& in) {
  in[0] = make.integers(op.rows, op.whole());
}

void shape(const EmbeddingGrad& op, Maker& make, std::vector<Values>& in) {
  in[0] = make.integers(op.rows, op.whole());
}

void shape(const RmsNormGradInput& op, Maker& /*make*/, std::vector<Values>& in) {
  in[3] = forward(RmsNorm{op.rows, op.width, 1e-5}, {in[1], in[2]})[1];
}

void shape(const RmsNormGradGain& op, Maker& /*make*/, std::vector<Values>& in) {
  const Values ones(static_cast<std::size_t>(op.width), 1.0);
  in[2] = forward(RmsNorm{op.rows, op.width, 1e-5}, {in[1], ones})[1];
}

// Norms and logarithms are of the inputs as they are stored: `x` here is what the op will read.
void shape(const LayerNormGradInput& op, Maker& /*make*/, std::vector<Values>& in) {
  const Values zeros(static_cast<std::size_t>(op.width), 0.0);
  const std::vector<Values> outputs =
      forward(LayerNorm{op.rows, op.width, 1e-5}, {in[1], in[2], zeros});
  in[3] = outputs[1];
  in[4] = outputs[2];
}

void shape(const LayerNormGradGain& op, Maker& /*make*/, std::vector<Values>& in) {
  const Values any(static_cast<std::size_t>(op.width), 0.0);
  const std::vector<Values> outputs =
      forward(LayerNorm{op.rows, op.width, 1e-5}, {in[1], any, any});
  in[2] = outputs[1];
  in[3] = outputs[2];
}

// For each row, so many different experts in any order.
Values choices_of(Maker& make, std::int64_t rows, std::int64_t top, std::int64_t experts) {
  Values all;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> left;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      left.push_back(static_cast<double>(expert));
    }
    for (std::int64_t k = 0; k < top; ++k) {
      const std::int64_t at = make.below(std::ssize(left));
      all.push_back(left[static_cast<std::size_t>(at)]);
      left.erase(left.begin() + at);
    }
  }
  return all;
}

void shape(const RouterGrad& op, Maker& /*make*/, std::vector<Values>& in) {
  const std::vector<Values> outputs = forward(op.forward, {in[1]});
  in[2] = outputs[0];
  in[3] = outputs[1];
}

// Some more experts than the op's own are there to be chosen.
void shape(const SortChoices& op, Maker& make, std::vector<Values>& in) {
  in[0] = choices_of(make, op.rows, op.top, std::max(op.first + op.held + 2, op.top));
}

// The order of choices of which about half are the device's.
template <typename T>
Values order_for(const T& op, Maker& make) {
  const std::int64_t held = op.slots / op.rows;
  const Values choices = choices_of(make, op.rows, op.top, std::max(2 * held, op.top));
  return forward(SortChoices{op.rows, op.top, 0, held}, {choices})[0];
}

void shape(const TakeRows& op, Maker& make, std::vector<Values>& in) {
  in[1] = order_for(op, make);
}

void shape(const SumRows& op, Maker& make, std::vector<Values>& in) { in[1] = order_for(op, make); }

void shape(const SumRowsGradWeight& op, Maker& make, std::vector<Values>& in) {
  in[2] = order_for(op, make);
}

// Some experts have no slot, and the last slots no expert.
template <typename T>
Values starts_for(const T& op, Maker& make) {
  Values starts = {0};
  const std::int64_t used = op.slots - op.slots / 5;
  for (std::int64_t expert = 0; expert < op.experts; ++expert) {
    const std::int64_t left = used - static_cast<std::int64_t>(starts.back());
    const bool is_last = expert + 1 == op.experts;
    starts.push_back(starts.back() + static_cast<double>(is_last ? left : make.below(left + 1)));
  }
  return starts;
}

void shape(const ExpertLinear& op, Maker& make, std::vector<Values>& in) {
  in[2] = starts_for(op, make);
}

void shape(const ExpertLinearGradInput& op, Maker& make, std::vector<Values>& in) {
  in[2] = starts_for(op, make);
}

void shape(const ExpertLinearGradWeight& op, Maker& make, std::vector<Values>& in) {
  in[2] = starts_for(op, make);
}

void shape(const Rope& op, Maker& make, std::vector<Values>& in) {
  in[1] = make.integers(op.rows, op.table_rows);
}

void shape(const Attention& op, Maker& make, std::vector<Values>& in) {
  if (op.documents) in[3] = document_starts(make, op);
}

void shape(const AttentionGrad& op, Maker& make, std::vector<Values>& in) {
  std::vector<Values> seen = {in[1], in[2], in[3]};
  if (op.forward.documents) {
    in[6] = document_starts(make, op.forward);
    seen.push_back(in[6]);
  }
  const std::vector<Values> outputs = forward(op.forward, seen);
  in[4] = outputs[0];
  in[5] = outputs[1];
}

void shape(const CrossEntropy& op, Maker& make, std::vector<Values>& in) {
  in[1] = make.integers(op.rows, op.vocab);
  ignore_some(make, in[1]);
}

void shape(const CrossEntropyPart& op, Maker& make, std::vector<Values>& in) {
  in[1] = make.integers(op.rows, op.of);
  ignore_some(make, in[1]);
}

// Of a part of the columns, the whole's sum is larger than its own.
void shape(const CrossEntropyGrad& op, Maker& make, std::vector<Values>& in) {
  in[1] = make.integers(op.rows, op.whole());
  ignore_some(make, in[1]);
  if (op.of > 0) {
    const Values own = forward(LogSumExp{op.rows, op.vocab}, {in[0]})[0];
    for (std::size_t row = 0; row < own.size(); ++row) {
      in[2][row] = own[row] + 0.5;
    }
    in[2] = rounded(in[2]);
    return;
  }
  in[2] = forward(CrossEntropy{op.rows, op.vocab}, {in[0], in[1]})[1];
}

void shape(const AdamW& op, Maker& make, std::vector<Values>& in) {
  in[2] = make.floats(op.count, 0, 0.1);
  in[4] = rounded(Values{1e-2, 0.9, 0.95, 1e-8, 0.1, 0.25, 1 - 0.9 * 0.9, 1 - 0.95 * 0.95});
}

template <typename T>
void shape(const T& /*op*/, Maker& /*make*/, std::vector<Values>& /*in*/) {}

double root_mean_square(const Values& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

}  // namespace

std::vector<Values> make_inputs(const Op& op, std::uint64_t seed) {
  Maker make(seed);
  const OpFacts facts = facts_of(op);
  std::vector<Values> inputs;
  for (const TensorSpec& spec : facts.inputs) {
    round_to(spec.dtype, inputs.emplace_back(make.floats(spec.elements())));
  }
  std::visit([&](const auto& body) { shape(body, make, inputs); }, op.body);
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    round_to(facts.inputs[input].dtype, inputs[input]);
  }
  return inputs;
}

std::vector<std::byte> encode(const TensorSpec& spec, const Values& values) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()));
  const auto size = static_cast<std::size_t>(size_of(spec.dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    put(spec.dtype, values[i], bytes.data() + i * size);
  }
  return bytes;
}

Values decode(const TensorSpec& spec, const std::vector<std::byte>& bytes) {
  Values values(static_cast<std::size_t>(spec.elements()));
  const auto size = static_cast<std::size_t>(size_of(spec.dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = taken(spec.dtype, bytes.data() + i * size);
  }
  return values;
}

double size_of_terms(const Op& op, const std::vector<Values>& inputs, const Values& expected) {
  if (std::holds_alternative<LayerNormGradInput>(op.body)) {
    return std::max(1.0, *std::max_element(inputs.back().begin(), inputs.back().end()));
  }
  const bool cancels = std::holds_alternative<RmsNormGradInput>(op.body) ||
                       std::holds_alternative<RouterGrad>(op.body) ||
                       std::holds_alternative<AttentionGrad>(op.body);
  return std::max(cancels ? 1.0 : 0.0, root_mean_square(expected));
}

}  // namespace hethub::conformance
