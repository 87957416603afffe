#pragma once

#include <cstdint>

#include "hethub/model/config.h"
#include "hethub/model/tensors.h"
#include "hethub/program/program.h"

namespace hethub {

/// The rows of one micro-batch: `sequences` packed sequences of one length.
struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t sequence_length = 1;
  bool documents = false;  ///< attention stays inside a document: adds the input "document_starts"

  std::int64_t rows() const { return sequences * sequence_length; }
};

/// The forward program of a slice, for Llama-like families. Its kInput values are, where needed,
/// "tokens", "positions", "labels" and "document_starts", each i32[rows]; parameters bear the names
/// and the order of tensors_of(model, slice). Throws kInvalidArgument for an empty slice.
Program build_forward(const ModelConfig& model, const Slice& slice, const BatchShape& shape);

/// cos and sin of position · theta^(-2j/head_dim), computed in fp64: row p holds head_dim/2
/// cosines, then as many sines.
std::vector<float> rope_table(const ModelConfig& model, std::int64_t positions);

}  // namespace hethub
