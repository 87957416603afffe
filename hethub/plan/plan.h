#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hethub/base/split.h"
#include "hethub/model/config.h"
#include "hethub/model/decoder.h"
#include "hethub/model/shards.h"
#include "hethub/program/differentiate.h"

namespace hethub {

/// Transformer layers [begin, end).
struct LayerRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool contains(int layer) const { return begin <= layer && layer < end; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// How much of a layer's forward pass is dropped and computed again in the backward pass.
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };

/// Recompute of some of a stage's layers; layers that no entry names keep everything.
struct RecomputeRange {
  Recompute kind = Recompute::kNone;
  LayerRange layers = {};

  friend bool operator==(const RecomputeRange&, const RecomputeRange&) = default;
};

/// Adds the recompute of some layers to what `differentiate` is asked for.
void add_recompute(const RecomputeRange& range, DifferentiateOptions& options);

/// A slice of the model on ranks of one accelerator kind.
struct Stage {
  std::string kind = {};
  std::vector<int> ranks = {};  ///< each run of `tensor_parallel` entries is one group
  int tensor_parallel = 1;
  int expert_parallel = 1;              ///< copies, in runs of so many, that share out the experts
  std::vector<LayerRange> layers = {};  ///< one range per virtual stage, see positions_of
  std::vector<RecomputeRange> recompute = {};

  /// Copies of the stage; they share out the sequences of every micro-batch.
  int copies() const { return static_cast<int>(ranks.size()) / tensor_parallel; }
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Stages that together hold the whole model once: one data-parallel replica.
struct Pipeline {
  int micro_batch_size = 1;  ///< sequences
  int micro_batches = 1;     ///< per step; faster pipelines take more
  std::vector<Stage> stages = {};

  std::int64_t sequences() const { return std::int64_t{micro_batch_size} * micro_batches; }
  friend bool operator==(const Pipeline&, const Pipeline&) = default;
};

/// How one training step is spread over the cluster: the content of a plan file.
///
/// Pipelines are data-parallel replicas of each other and need not look alike: they may differ in
/// stages, kinds, layers and in how many sequences they take.
struct Plan {
  std::string model = {};  ///< path of the config.json, as the plan's author wrote it
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;  ///< sequences per step: the sum over the pipelines
  std::string dtype = "f32";
  std::string schedule = "1f1b";  ///< a name from all_schedules()
  int zero_stage = 1;             ///< 0 and 1 run alike: docs/decisions/0007
  std::int64_t bucket_bytes = std::int64_t{64} << 20;
  bool overlap = false;            ///< sum a bucket's gradients while the backward pass goes on
  bool sequence_parallel = false;  ///< tensor-parallel groups split norms and residuals by rows
  double z_loss = 0;               ///< weight of the squared log-sum of logits in the gradient
  std::vector<Pipeline> pipelines = {};
  double predicted_step_seconds = 0;  ///< what the planner expected; 0: not known

  int world_size() const;

  /// The kind of every rank, in rank order; "" for a rank that no stage names.
  std::vector<std::string> kind_of_rank() const;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Where a rank stands in a plan.
struct RankPosition {
  int pipeline = 0;
  int stage = 0;
  int place = 0;  ///< in the stage's list of ranks

  friend bool operator==(const RankPosition&, const RankPosition&) = default;
};

/// Throws kInvalidPlan if no stage names `rank`.
RankPosition position_of(const Plan& plan, int rank);

/// The stage that holds a position of a pipeline, where each of its `stages` holds one or, with
/// virtual stages, several in turn.
constexpr int stage_of_position(int position, int stages) { return position % stages; }

/// Which of its stage's ranges of layers a position is.
constexpr int range_of_position(int position, int stages) { return position / stages; }

/// The positions of a pipeline that a stage holds, one for each of its ranges of layers; ascending.
std::vector<int> positions_of(const Pipeline& pipeline, int stage);

/// Some layers with what goes with them: the embedding with layer 0, the head with the last.
Slice slice_of(const ModelConfig& model, const LayerRange& layers);

/// The part of the model at a position, embedding and head included.
Slice slice_of(const Plan& plan, const ModelConfig& model, int pipeline, int position);

/// The sequences of each micro-batch that the rank at a position computes: copies of a stage take
/// theirs one after another.
IndexRange sequences_of(const Plan& plan, const RankPosition& at);

/// The rows of one micro-batch at a position.
BatchShape batch_shape(const Plan& plan, const RankPosition& at);

/// How all ranks of the plan store tensors: alike, so that what one stage splits and another holds
/// whole has the same elements in the same order.
TensorLayout layout_of(const Plan& plan);

/// Where a rank stands in its tensor-parallel group; `layout` is layout_of the plan.
TensorParallel tensor_parallel_of(const Plan& plan, const RankPosition& at, TensorLayout layout);

/// The ranks of its tensor-parallel group, in the order of their places.
std::vector<int> tensor_group_of(const Plan& plan, const RankPosition& at);

/// The ranks that share out the experts with it, in the order of their copies: those at its place
/// in the tensor-parallel groups of a run of `expert_parallel` copies.
std::vector<int> expert_group_of(const Plan& plan, const RankPosition& at);

/// The rank's groups of more than itself, by what GroupStart::group counts: its tensor-parallel
/// group, then the ranks that share out the experts.
std::vector<std::vector<int>> groups_of(const Plan& plan, const RankPosition& at);

/// The pipeline's first sequence in a step's global batch: pipelines take theirs one after another,
/// micro-batch by micro-batch.
std::int64_t first_sequence(const Plan& plan, int pipeline);

}  // namespace hethub
