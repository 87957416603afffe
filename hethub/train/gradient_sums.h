#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "hethub/accel/rank/rank_device.h"
#include "hethub/comm/communicator.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/train/executor.h"

namespace hethub {

/// What GradientSums is made of; all pointers outlive it.
struct GradientSumsOptions {
  const RankPlan* rank = nullptr;
  const std::vector<Segment>* segments = nullptr;
  RankDevice* device = nullptr;
  DevicePort* port = nullptr;
  std::chrono::milliseconds timeout{600'000};  ///< most that the device may take for an op

  /// Called once a step, before the first gradients are checked.
  std::function<void()> before_check = {};

  /// Which tensor of a bucket is not finite, counted from 1 over the model; 0: none. Called after a
  /// failed check, while the bucket has this rank's own gradients.
  std::function<int(const GradientBucket& bucket)> find_nonfinite = {};
};

/// Sums one rank's gradients with those of other holders, bucket by bucket in the plan's order:
/// each is checked and begins once its gradients are complete, while the backward pass goes on.
/// One bucket is under way at a time. Hands out the updated parameters, too.
/// Threads: one, that of the device's queue.
class GradientSums {
 public:
  explicit GradientSums(const GradientSumsOptions& options);

  /// How many groups of ranks hold something together: communicators 1 to so many are theirs.
  int groups() const { return static_cast<int>(numbers_.size()); }

  /// `observer`, if any, is told of bucket b's sum as of slot first_slot + b.
  void begin_step(const ActionObserver& observer, int first_slot);

  /// Queues a phase of a micro-batch; sums move on meanwhile, and those begin whose gradients are
  /// complete.
  void run(int program, Phase phase, int micro_batch);

  /// Ends all checks. Returns find_nonfinite's lowest answer that is not 0, else 0.
  int finish_checks(Deadline deadline);

  /// Ends all sums.
  void finish(Deadline deadline);

  /// Hands out what owners have updated.
  void share_parameters(Deadline deadline);

 private:
  struct Bucket {
    Communicator* group = nullptr;
    std::unique_ptr<PreparedCollective> gradients = {};
    std::unique_ptr<PreparedCollective> parameters = {};
    View gradient_view = {};
    View parameter_view = {};
    std::unique_ptr<Event> checked = {};
    float check_sum = 0;
  };

  void make_groups();
  void make_buckets();
  int buckets() const { return static_cast<int>(buckets_.size()); }
  Deadline deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }
  bool busy() const { return queued_ > summed_; }
  void run_beside(int program, Phase phase, int micro_batch, int first, int last);
  void queue_check();
  void examine();
  void start_sum();
  void end_sum();
  void advance();

  GradientSumsOptions options_;
  const RankPlan& rank_;
  RankDevice& device_;
  std::map<std::vector<int>, int> numbers_ = {};  // of all groups, not only this rank's
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_ = {};
  std::vector<Bucket> buckets_ = {};
  std::array<std::unique_ptr<Event>, 2> pace_ = {};  // of the last two instructions beside sums
  std::size_t turn_ = 0;

  // Of the step that runs: how many buckets have come so far.
  int queued_ = 0;   // their checks are queued
  int checked_ = 0;  // their checks have been examined
  int summed_ = 0;   // their sums have ended
  bool summing_ = false;
  double sum_began_s_ = 0;
  int nonfinite_ = 0;
  ActionObserver observer_ = {};
  int first_slot_ = 0;
  Request request_ = {};
};

}  // namespace hethub
