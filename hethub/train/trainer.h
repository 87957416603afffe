#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/comm/messenger.h"
#include "hethub/data/sample_source.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/trace/recorder.h"
#include "hethub/train/model_state.h"
#include "hethub/train/progress.h"
#include "hethub/train/rank_worker.h"

namespace hethub {

/// When and where a run saves itself.
struct CheckpointOptions {
  std::filesystem::path dir = {};  ///< empty: never
  std::int64_t every = 0;          ///< steps; the last step is always saved; 0: only that
  int keep_last = 2;
};

/// Where the parameters start.
struct StartOptions {
  std::uint64_t seed = 0;
  std::filesystem::path init_from = {};  ///< a Hugging Face folder; empty: from the seed
  bool tie_missing_head = false;
  std::string resume = {};  ///< "auto": the newest of the checkpoint folder, if any; or a path
  bool other_data = false;  ///< resume with samples other than those the run began with
};

/// What may go wrong on purpose, for tests.
struct Injection {
  int nan_rank = -1;           ///< this rank puts nan_value into its gradient ...
  std::int64_t nan_step = -1;  ///< ... from this step (counted from 1) on ...
  std::int64_t nan_last = -1;  ///< ... up to this one
  float nan_value = std::numeric_limits<float>::quiet_NaN();
  double kill_at_checkpoint_bytes = -1;  ///< SIGKILL after this share of a shard was written ...
  std::int64_t kill_step = -1;           ///< ... at this step (-1: the first that is saved)
};

struct TrainOptions {
  Plan plan = {};
  ModelConfig model = {};
  std::string data = {};  ///< digest_of the training samples; "": a resume cannot check them
  OptimizerOptions optimizer = {};
  CheckpointOptions checkpoint = {};
  StartOptions start = {};
  std::int64_t steps = 1;
  int most_skips_in_a_row = 5;
  double timeout_s = 600;
  double gemm_flops_per_s =
      0;  ///< sum of the devices' measured rates of matrix products; 0: not known
  std::int64_t trace_steps = 0;      ///< how many of the last steps to keep in the trace
  std::int64_t evaluate_every = 0;   ///< steps between evaluations; the last step is always one
  std::int64_t evaluate_rounds = 0;  ///< global batches an evaluation reads; 0: none
  /// Before each checkpoint and at the end: whether all holders of a tensor have the same bits.
  bool verify_replicas = false;
  bool emulated = false;  ///< some rank's device keeps another kind's pace: every line says so
  Injection inject = {};
};

/// What a trainer tells while it runs, on rank 0 only.
struct TrainObserver {
  std::function<void(const StepResult& result, const ProgressFacts& facts)> step = {};
  std::function<void(std::int64_t step, double loss, double tokens)> evaluation = {};
  std::function<void(const std::string& note)> note = {};
};

/// One rank of a training run: builds its part of the plan, takes its memory, and trains.
/// Threads: one.
class Trainer {
 public:
  /// Throws what validate(), the device, the weights or the checkpoint have against it.
  Trainer(TrainOptions options, Backend& backend, Messenger& messenger);
  ~Trainer();

  /// Trains to options.steps. `held_out` may be null. Throws kNumerical after too many skipped
  /// steps in a row.
  void run(const SampleSource& training, const SampleSource* held_out,
           const TrainObserver& observer);

  const RankPlan& rank_plan() const { return rank_; }
  RankWorker& worker() { return *worker_; }

  /// What lies in a range of this rank's arena.
  std::vector<float> read_floats(const ArenaRange& range);

  /// The last trace_steps steps of all ranks, on rank 0; empty elsewhere. Every rank calls it.
  Timeline gather_trace();

 private:
  void start();
  void resume(const std::filesystem::path& folder);
  void record_labels();
  void train_step(const SampleSource& training, const TrainObserver& observer);
  void evaluate(const SampleSource& held_out, const TrainObserver& observer);
  void save(const TrainObserver& observer);
  void verify_replicas(const TrainObserver& observer);
  ShardOptions shard_options() const;
  std::vector<std::string> gather_text(const std::string& mine);
  bool leads() const { return rank_.rank == 0; }

  TrainOptions options_;
  Messenger& messenger_;
  std::vector<Segment> segments_;
  RankPlan rank_;
  Schedule schedule_;
  RankDevice device_;
  std::unique_ptr<RankWorker> worker_;
  ModelState state_;
  std::unique_ptr<TraceRecorder> recorder_ = {};
  std::vector<int> labels_ = {};  // of the schedule's slots, then of buckets
  std::vector<std::string> notes_ = {};

  std::int64_t step_ = 0;     // done
  std::int64_t updates_ = 0;  // of the optimizer: steps that were not skipped
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_a_row_ = 0;
  double tokens_seen_ = 0;
  double seconds_ = 0;  // of this run's steps
  std::int64_t steps_timed_ = 0;
  std::int64_t largest_arena_ = 0;
  std::int64_t last_saved_ = -1;
};

}  // namespace hethub
