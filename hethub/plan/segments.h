#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/collective/algorithm.h"
#include "hethub/model/tensors.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// Tensors that lie one after another, in the same order, on the same ranks: what is summed in one
/// collective. Replicas and tied embeddings alike are "one tensor, several holders".
///
/// Each range of a segment has one owner, which alone updates it; the other holders receive the
/// updated bytes. Kinds round differently, and copies must stay bit-equal.
struct Segment {
  std::string name = {};        ///< its first tensor, and how many follow
  std::vector<int> ranks = {};  ///< the holders, ascending
  std::vector<ModelTensor> tensors = {};
  std::int64_t elements = 0;  ///< with each tensor padded to the alignment of memory
  ChunkTable owned = {};      ///< elements that each holder owns: its range follows the one before
};

/// The elements a tensor takes in a segment, padding included.
std::int64_t padded_elements(const ModelTensor& tensor);

/// All tensors of the model, each in one segment, in the model's order. Segments of several holders
/// are at most `plan.bucket_bytes` long, unless a single tensor is longer.
std::vector<Segment> segments_of(const Plan& plan, const ModelConfig& model);

/// A part of one tensor of a segment that one holder owns.
struct SegmentRange {
  int tensor = 0;          ///< position in Segment::tensors
  std::int64_t first = 0;  ///< element of the tensor
  std::int64_t count = 0;
  std::int64_t at = 0;  ///< element of the segment
};

/// What a holder owns of a segment: its range without the padding, tensor by tensor.
std::vector<SegmentRange> owned_ranges(const Segment& segment, int holder);

/// How the holders of a segment sum its gradients, each range at its owner: what training_choices
/// names for so many ranks and bytes. The order of the additions follows from it.
CollectiveAlgorithm gradient_algorithm(const Segment& segment);

/// How the owners hand out what they updated, chosen likewise.
CollectiveAlgorithm parameter_algorithm(const Segment& segment);

}  // namespace hethub
