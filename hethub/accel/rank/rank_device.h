#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/accel/rank/group_runner.h"
#include "hethub/plan/rank_plan.h"

namespace hethub {

/// A prepared op with its memory: nothing is looked up when it runs.
struct BoundOp {
  PreparedOp* op = nullptr;           ///< null for the two group ops
  const GroupStart* group = nullptr;  ///< what begins; null for its wait
  DType dtype = DType::kF32;          ///< of the op
  std::vector<View> inputs = {};
  std::vector<View> outputs = {};
  View workspace = {};
};

/// One rank's device: the one arena that its RankPlan lays out, and every op of the plan made ready
/// and bound to it, for each lane. Nothing is allocated once it is made.
/// Threads: one.
class RankDevice {
 public:
  /// Takes `plan.memory.arena_bytes` on the device. Throws kOutOfMemory, kUnsupported.
  RankDevice(Backend& backend, const RankPlan& plan);

  /// Who performs group ops from now on: needed before a program with one runs. Not owned.
  void set_group_runner(GroupRunner* runner) { group_runner_ = runner; }

  Queue& queue() { return *queue_; }
  Backend& backend() { return backend_; }
  const RankPlan& plan() const { return plan_; }

  /// Queues one phase of a micro-batch in one of the plan's programs.
  void run(int program, Phase phase, int micro_batch);

  /// Queues instructions [first, last) of it alone.
  void run(int program, Phase phase, int micro_batch, int first, int last);

  /// Queues ops that stand outside the programs.
  void run(const std::vector<BoundOp>& ops) { run(std::span<const BoundOp>(ops)); }
  /// Queues the check of one of the plan's buckets.
  void run_check(int bucket) { run(std::span<const BoundOp>(check_ops_).subspan(bucket, 1)); }
  const std::vector<BoundOp>& norm_ops() const { return norm_ops_; }
  const std::vector<BoundOp>& update_ops() const { return update_ops_; }
  const std::vector<BoundOp>& copy_ops() const { return copy_ops_; }
  const std::vector<BoundOp>& zero_ops() const { return zero_ops_; }

  /// Writes the programs' constants to where they lie, which making it has done once.
  void upload_constants();

  View view(const ArenaRange& range) const { return {arena_.get(), range.offset, range.bytes}; }

  /// A program's value of one micro-batch (of any, for what lives for the whole run).
  View view(int program, int value, int micro_batch) const;

  int lane_of(int program, int micro_batch) const;

  /// Waits until all queued work is done.
  void synchronize(Deadline deadline) { queue_->synchronize(deadline); }

 private:
  PreparedOp& prepared(const Op& op);
  void run(std::span<const BoundOp> ops);
  void run_group_op(const BoundOp& bound);
  using Phases = std::array<std::vector<BoundOp>, kPhases>;

  std::vector<Phases> bind_program(int program);
  BoundOp bind(int program, const Instruction& instruction, Phase phase, int index,
               int micro_batch);
  std::vector<BoundOp> bind(const std::vector<StepOp>& step_ops);

  Backend& backend_;
  const RankPlan& plan_;
  std::unique_ptr<Buffer> arena_;
  std::unique_ptr<Queue> queue_;
  GroupRunner* group_runner_ = nullptr;
  std::vector<std::pair<Op, std::unique_ptr<PreparedOp>>> prepared_ = {};
  std::vector<std::vector<Phases>> lanes_ = {};  // by program and lane
  std::vector<BoundOp> check_ops_ = {};
  std::vector<BoundOp> norm_ops_ = {};
  std::vector<BoundOp> update_ops_ = {};
  std::vector<BoundOp> copy_ops_ = {};
  std::vector<BoundOp> zero_ops_ = {};
};

}  // namespace hethub
