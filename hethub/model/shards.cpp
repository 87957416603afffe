#include "hethub/model/shards.h"

#include <algorithm>

namespace hethub {
namespace {

// Of the tensor as it is stored.
IndexRange rows_of(const ModelConfig& model, const TensorShard& shard,
                   const TensorParallel& parallel) {
  const ModelTensor& tensor = shard.tensor;
  const std::int64_t rows = tensor.shape[shard.transposed ? 1 : 0];
  switch (tensor.split) {
    case TensorSplit::kNone:
      return {0, rows};
    case TensorSplit::kKeyHeads:
      if (model.kv_heads < parallel.width) {
        return part_of(rows, model.kv_heads, parallel.place * model.kv_heads / parallel.width);
      }
      break;
    case TensorSplit::kExperts: {
      const IndexRange held = experts_of(model, parallel);
      const std::int64_t of_each = rows / model.experts;
      return {held.begin * of_each, held.end * of_each};
    }
    case TensorSplit::kRows:
    case TensorSplit::kColumns:
      break;
  }
  return part_of(rows, parallel.width, parallel.place);
}

// Tensors that the same ranks hold have the same number.
int held_alike(TensorSplit split) {
  switch (split) {
    case TensorSplit::kNone:
      return 0;
    case TensorSplit::kKeyHeads:
      return 1;
    case TensorSplit::kRows:
    case TensorSplit::kColumns:
      return 2;
    case TensorSplit::kExperts:
      break;
  }
  return 3;
}

}  // namespace

std::vector<std::int64_t> TensorShard::shape() const {
  if (tensor.shape.size() == 1) return {count};
  const std::int64_t row = tensor.shape[transposed ? 0 : 1];
  return {count / row, row};
}

std::vector<TensorShard> shards_of(const ModelConfig& model, const Slice& slice,
                                   const TensorParallel& parallel) {
  std::vector<TensorShard> shards;
  const bool splits = parallel.layout == TensorLayout::kSplit;
  for (ModelTensor& tensor : tensors_of(model, slice)) {
    TensorShard shard{.tensor = std::move(tensor)};
    shard.transposed = splits && shard.tensor.split == TensorSplit::kColumns;
    const std::int64_t all_rows = shard.tensor.shape[shard.transposed ? 1 : 0];
    const std::int64_t row = shard.tensor.elements() / all_rows;
    const IndexRange rows = rows_of(model, shard, parallel);
    shard.first = rows.begin * row;
    shard.count = rows.size() * row;
    shards.push_back(std::move(shard));
  }
  if (splits) {
    std::stable_sort(shards.begin(), shards.end(), [](const auto& a, const auto& b) {
      return held_alike(a.tensor.split) < held_alike(b.tensor.split);
    });
  }
  return shards;
}

HeldElements::HeldElements(const ModelConfig& model, const TensorParallel& parallel) {
  const auto sum = [&](const Slice& slice) {
    std::int64_t elements = 0;
    for (const TensorShard& shard : shards_of(model, slice, parallel)) {
      elements += shard.count;
    }
    return elements;
  };
  layer_ = sum({0, 1, false, false});
  for (const bool embedding : {false, true}) {
    for (const bool head : {false, true}) {
      ends_[embedding ? 1 : 0][head ? 1 : 0] = sum({0, 0, embedding, head});
    }
  }
}

IndexRange vocabulary_of(const ModelConfig& model, const TensorParallel& parallel) {
  return part_of(model.vocab_size, parallel.width, parallel.place);
}

IndexRange group_experts_of(const ModelConfig& model, const TensorParallel& parallel) {
  return part_of(model.experts, parallel.width, parallel.place);
}

IndexRange experts_of(const ModelConfig& model, const TensorParallel& parallel) {
  const IndexRange all = group_experts_of(model, parallel);
  const IndexRange mine = part_of(all.size(), parallel.expert_width, parallel.expert_place);
  return {all.begin + mine.begin, all.begin + mine.end};
}

IndexRange learned_positions_of(const ModelConfig& model, const TensorParallel& parallel) {
  return part_of(model.max_position_embeddings, parallel.width, parallel.place);
}

void write_initial_values(const ModelConfig& model, const TensorShard& shard, std::uint64_t seed,
                          std::int64_t first, std::span<float> values) {
  if (!shard.transposed) return write_initial_values(model, shard.tensor, seed, first, values);
  for (std::size_t index = 0; index < values.size(); ++index) {
    const std::int64_t element = first + static_cast<std::int64_t>(index);
    write_initial_values(model, shard.tensor, seed, shard.element_of(element),
                         values.subspan(index, 1));
  }
}

}  // namespace hethub
