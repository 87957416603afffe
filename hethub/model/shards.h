#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "hethub/base/split.h"
#include "hethub/model/config.h"
#include "hethub/model/tensors.h"

namespace hethub {

/// How a plan's ranks store tensors.
enum class TensorLayout : std::uint8_t {
  kWhole,  ///< as the model has them, in its order

  /// For plans with tensor or expert parallel: a matrix that is split by columns is stored
  /// transposed, so that a shard of any width is one flat range of any wider one; tensors that are
  /// split alike lie together.
  kSplit,
};

/// Where a rank stands in its tensor-parallel group.
struct TensorParallel {
  int width = 1;
  int place = 0;  ///< of the rank in the group
  TensorLayout layout = TensorLayout::kWhole;

  /// Expert parallel: so many copies of the stage share out the experts, of which the rank's is
  /// number `expert_place`.
  int expert_width = 1;
  int expert_place = 0;

  /// Sequence parallel: what is not split by heads, MLP or vocabulary is split by rows over the
  /// group, in even runs.
  bool sequence = false;
};

/// What a rank holds of one tensor: one flat range of it as it is stored.
struct TensorShard {
  ModelTensor tensor = {};
  bool transposed = false;  ///< stored column by column
  std::int64_t first = 0;   ///< element of the tensor as it is stored
  std::int64_t count = 0;

  std::int64_t end() const { return first + count; }
  bool is_whole() const { return count == tensor.elements(); }

  /// The position in the tensor, row by row, of an element of it as it is stored.
  std::int64_t element_of(std::int64_t stored) const {
    if (!transposed) return stored;
    return stored % tensor.shape[0] * tensor.shape[1] + stored / tensor.shape[0];
  }

  /// As the rank's program sees it: whole rows of the tensor as it is stored.
  std::vector<std::int64_t> shape() const;
};

/// What a rank holds of a slice, in the order in which it stores it.
std::vector<TensorShard> shards_of(const ModelConfig& model, const Slice& slice,
                                   const TensorParallel& parallel);

/// How many elements a rank of a model's tensor-parallel groups holds, by slice: sums of shards_of.
class HeldElements {
 public:
  HeldElements() = default;
  explicit HeldElements(const ModelConfig& model, const TensorParallel& parallel = {});

  /// The sum over shards_of the slice: layers are alike in it.
  std::int64_t of(const Slice& slice) const {
    return slice.layers() * layer_ + ends_[slice.embedding ? 1 : 0][slice.head ? 1 : 0];
  }

 private:
  std::int64_t layer_ = 0;
  std::array<std::array<std::int64_t, 2>, 2> ends_ = {};  // by embedding and head
};

/// The rows of the vocabulary that a rank of the group holds.
IndexRange vocabulary_of(const ModelConfig& model, const TensorParallel& parallel);

/// The experts that a place in tensor-parallel groups has: with `expert_width` > 1, those that the
/// ranks at this place of so many copies share out.
IndexRange group_experts_of(const ModelConfig& model, const TensorParallel& parallel);

/// The experts that a rank of the group holds.
IndexRange experts_of(const ModelConfig& model, const TensorParallel& parallel);

/// The rows of learned positions that a rank of the group holds.
IndexRange learned_positions_of(const ModelConfig& model, const TensorParallel& parallel);

/// The tensor's starting values at elements [first, first + values.size()) of it as it is stored.
void write_initial_values(const ModelConfig& model, const TensorShard& shard, std::uint64_t seed,
                          std::int64_t first, std::span<float> values);

}  // namespace hethub
