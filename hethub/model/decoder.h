#pragma once

#include <cstdint>

#include "hethub/model/config.h"
#include "hethub/model/shards.h"
#include "hethub/model/tensors.h"
#include "hethub/program/program.h"

namespace hethub {

/// The rows of one micro-batch: `sequences` packed sequences of one length.
struct BatchShape {
  std::int64_t sequences = 1;
  std::int64_t sequence_length = 1;
  bool documents = false;  ///< attention stays inside a document: adds the input "document_starts"
  DType dtype = DType::kF32;  ///< what ops compute in: f32 or bf16
  double z_loss = 0;          ///< see CrossEntropyGrad::z

  /// Sequences of all the copies that share out the experts; 0: no others.
  std::int64_t expert_sequences = 0;

  std::int64_t rows() const { return sequences * sequence_length; }
};

/// The forward program of a slice. Its kInput values are, where needed,
/// "tokens", "positions", "labels" and "document_starts", each i32[rows]; parameters bear the names
/// and the order of shards_of(model, slice, parallel). Throws kInvalidArgument for an empty slice.
///
/// Parameters are f32. With another `shape.dtype`, ops read copies of them (kCopy) in it.
///
/// With `parallel.width` > 1 it is one rank's part: attention and MLP are split by heads and by the
/// width of the MLP, embedding, head and loss by the vocabulary; group 0 of the rank is its
/// tensor-parallel group. Values between layers, and those that stages send, are whole on every
/// rank or, with `parallel.sequence`, its rows: gathered after a norm, scattered as they are
/// summed; "losses" are of the labels in the rank's part of the vocabulary, and 0 elsewhere.
/// A group splits experts, not what each computes: each rank has the tokens of its own experts.
/// With `parallel.expert_width` > 1, the rank's last group has the ranks at its place in the copies
/// that share out experts: tokens go to the ranks that have their experts, and back.
/// Sources: Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., MLSys 2023.
Program build_forward(const ModelConfig& model, const Slice& slice, const BatchShape& shape,
                      const TensorParallel& parallel = {});

}  // namespace hethub
