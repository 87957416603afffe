#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hethub/collective/algorithm.h"
#include "hethub/model/shards.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// Parts of tensors that lie one after another, in the same order, on the same ranks: what is
/// summed in one collective. Replicas, tied embeddings and what tensor parallel does not split are
/// "one tensor, several holders". Where holders split a tensor differently, its parts are the
/// finest common split.
///
/// Each range of a segment has one owner, which alone updates it; the other holders receive the
/// updated bytes. Kinds round differently, and copies must stay bit-equal.
struct Segment {
  std::string name = {};        ///< its first tensor, and how many follow
  std::vector<int> ranks = {};  ///< the holders, ascending
  std::vector<TensorShard> parts = {};
  /// The positions in `ranks` of each kind's; empty where one ring is as good: of one kind, or no
  /// kind twice.
  std::vector<std::vector<int>> kinds = {};
  int round = 0;              ///< see summed_segments; of segments that several ranks hold
  std::int64_t elements = 0;  ///< with what pads each part in the memory of all holders
  ChunkTable owned = {};      ///< elements that each holder owns: its range follows the one before

  /// ZeRO 2: a matrix whose gradient is summed after each micro-batch, so that a holder keeps that
  /// of what it owns alone.
  bool scattered = false;

  /// Whether several ranks hold it, which sum its gradients.
  bool is_shared() const { return ranks.size() > 1; }
};

/// The elements that so many take in memory, padding included.
std::int64_t padded_elements(std::int64_t elements);

/// All tensors of the model, each element in one segment, in the order in which ranks store them.
/// Segments of several holders are at most `plan.bucket_bytes` long, unless a single part is
/// longer. With ZeRO 2, each matrix that the ranks of one stage hold alike is a segment.
std::vector<Segment> segments_of(const Plan& plan, const ModelConfig& model);

/// What a holder owns of a segment: its range without the padding, part by part.
std::vector<TensorShard> owned_parts(const Segment& segment, int holder);

/// The elements of a scattered segment's gradient that a holder keeps.
std::int64_t scattered_elements(const Segment& segment, int holder);

/// How the holders of a segment sum its gradients, each range at its owner: what training_choices
/// names for so many ranks and bytes. The order of the additions follows from it.
CollectiveAlgorithm gradient_algorithm(const Segment& segment);

/// How the owners hand out what they updated, chosen likewise.
CollectiveAlgorithm parameter_algorithm(const Segment& segment);

/// Bytes of scratch that a segment's collectives need. Keeps their algorithms, which are alike for
/// most segments of as many holders. One thread at a time.
class SegmentScratch {
 public:
  std::int64_t bytes_of(const Segment& segment);

 private:
  // By name and holders, in all and of each kind.
  std::map<std::pair<std::string, std::vector<std::int64_t>>, CollectiveAlgorithm> algorithms_ = {};
  std::map<std::vector<std::int64_t>, std::int64_t> known_ = {};  // by holders and elements
};

}  // namespace hethub
