#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hethub/accel/rank/rank_device.h"
#include "hethub/checkpoint/writer.h"
#include "hethub/model/config.h"

namespace hethub {

/// Where a rank's parameters come from and go to, between steps.
class ModelState {
 public:
  ModelState(const ModelConfig& model, RankDevice& device) : model_(model), device_(device) {}

  /// The starting values of seed `seed`.
  void initialize(std::uint64_t seed);

  /// The weights of a Hugging Face folder; returns what the user should know. Throws kCorruptData,
  /// naming the tensor, if one is missing, of another shape, or not known to the model.
  std::vector<std::string> load_hugging_face(const std::filesystem::path& folder,
                                             bool tie_missing_head);

  /// Parameters and both moments from a checkpoint that any plan wrote; its facts. Throws
  /// kCorruptData unless it holds exactly the tensors of this model.
  CheckpointFacts load_checkpoint(const std::filesystem::path& folder);

  /// Writes the shard of what this rank owns.
  ShardRecord save(const ShardPlace& place, const ShardOptions& options);

  /// All tensors of a checkpoint of this model: each parameter and its two moments.
  std::vector<LogicalTensor> logical_tensors() const;

 private:
  void for_each_parameter(
      const std::function<void(const TensorShard& shard, std::span<float> values)>& fill);
  void upload(const std::vector<float>& values, const ArenaRange& range);

  const ModelConfig& model_;
  RankDevice& device_;
};

}  // namespace hethub
