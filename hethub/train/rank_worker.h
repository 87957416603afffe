#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hethub/accel/rank/rank_device.h"
#include "hethub/comm/communicator.h"
#include "hethub/comm/device_port.h"
#include "hethub/data/sample_source.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/train/executor.h"
#include "hethub/train/gradient_sums.h"
#include "hethub/train/group_collectives.h"
#include "hethub/train/optimizer.h"
#include "hethub/train/stage_messages.h"

namespace hethub {

/// Everything that a rank's worker is made of; all pointers outlive it.
struct RankWorkerOptions {
  const Plan* plan = nullptr;
  const std::vector<Segment>* segments = nullptr;
  const RankPlan* rank = nullptr;
  const Schedule* schedule = nullptr;  ///< of the rank's pipeline
  RankDevice* device = nullptr;
  Messenger* messenger = nullptr;
  OptimizerOptions optimizer = {};
  std::chrono::milliseconds timeout{600'000};  ///< most that a wait for a peer may take
  bool force_host_staged = false;

  /// Called on every rank before its gradients are summed; for tests that put a NaN there.
  std::function<void(std::int64_t step, View gradients, Queue& queue)> before_sync = {};
};

/// What a step came to; the same on all ranks but for the rank's own parts.
struct StepResult {
  double loss = 0;           ///< mean over the counted labels of the global batch
  double tokens = 0;         ///< counted labels
  double gradient_norm = 0;  ///< of the mean loss, before clipping
  double learning_rate = 0;
  bool skipped = false;     ///< not finite, or nothing counted: no parameter changed
  std::string reason = {};  ///< why it was skipped: "nonfinite rank=1 param=..."
  std::vector<double> square_sums =
      {};  ///< this rank's: of the summed-loss gradient, per owned piece
};

/// Performs one rank's actions of a step on its device: programs, messages and the optimizer.
/// Threads: one.
class RankWorker : public StageWorker {
 public:
  explicit RankWorker(const RankWorkerOptions& options);
  ~RankWorker() override;
  RankWorker(const RankWorker&) = delete;
  RankWorker& operator=(const RankWorker&) = delete;

  /// Performs step `step` (from 0) on samples step·global_batch and on, as update number
  /// `update` (from 1). Errors of the device, a peer or the data are thrown and end the job.
  /// The result is this worker's, until its next step. The observer is told of bucket b of the
  /// rank plan as of slot b after the schedule's.
  const StepResult& run_step(const SampleSource& source, std::int64_t step, std::int64_t update,
                             const ActionObserver& observer = nullptr);

  /// Loss of samples round·global_batch and on, forward only; no parameter changes.
  struct Evaluation {
    double loss_sum = 0;
    double tokens = 0;
  };
  Evaluation evaluate(const SampleSource& source, std::int64_t round);

  /// All ranks, in rank order; for sums of small numbers.
  Communicator& world() { return *world_; }

  Deadline deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }

  void compute(const Action& what) override;
  void send(const Action& what, const WorkerAction& to) override;
  void recv(const Action& what, const WorkerAction& from) override;
  void finish_step(const Action& what) override;

 private:
  struct HostInputs {  // one micro-batch's rows
    std::vector<std::int32_t> tokens = {};
    std::vector<std::int32_t> labels = {};
    std::vector<std::int32_t> positions = {};
    std::vector<float> losses = {};
  };

  void make_inputs();
  void make_groups();
  GradientSumsOptions sums_options();
  void upload_inputs(int index, int micro_batch);
  void read_losses();
  void sync_norm();
  void check_gradients();
  int first_nonfinite_tensor(const GradientBucket& bucket);
  void norm_gradients();
  void note_nonfinite();
  int ordinal_of(const std::string& tensor) const;
  void update();
  void share_parameters();
  void begin_pass();

  RankWorkerOptions options_;
  const RankPlan& rank_;
  RankDevice& device_;
  StageMessages messages_;
  std::unique_ptr<DevicePort> port_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<GroupCollectives> group_ops_ = {};  // where programs have group ops
  std::unique_ptr<GradientSums> gradient_sums_ = {};
  Schedule forward_only_ = {};
  IndexRange sequences_ = {};  // of each micro-batch: those of this rank
  bool counts_tokens_ = true;  // of its tensor-parallel group, one rank does
  HostInputs host_ = {};
  std::vector<float> sums_ = {};                // of the owned pieces
  std::vector<std::string> tensor_names_ = {};  // of the whole model
  int nonfinite_ = 0;                           // as the summary has it: see kLoss
  std::vector<double> summary_ = {};

  const SampleSource* source_ = nullptr;  // of the step that runs
  std::int64_t step_ = 0;
  std::int64_t update_ = 0;
  bool copies_are_made_ = false;  // of the parameters, since they were loaded
  double loss_sum_ = 0;
  double tokens_ = 0;
  StepResult result_ = {};
};

}  // namespace hethub
