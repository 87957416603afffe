#pragma once

#include <string>
#include <vector>

#include "hethub/plan/schedule.h"
#include "hethub/program/program.h"

namespace hethub {

/// From when on the gradients of a bucket are complete on its rank: after that instruction of that
/// phase, in the last micro-batch that adds to them.
struct BucketReady {
  int program = -1;  ///< -1: only once all micro-batches are done
  int micro_batch = 0;
  Phase phase = Phase::kBackward;
  int instruction = -1;
};

/// A part of a rank's gradients that it sums with other holders in one collective.
struct GradientBucket {
  int held = 0;  ///< position in RankPlan::segments
  BucketReady ready = {};
};

/// How every trace shows the sum of a rank's nth bucket, beside what the rank computes meanwhile.
ActionLabel bucket_label(int bucket);

/// Finds when gradients are complete, from a worker's actions and its programs, which are those of
/// `positions`.
class BucketTimes {
 public:
  BucketTimes(const Schedule& schedule, int worker, const std::vector<int>& positions,
              const std::vector<Program>& programs);

  /// When the gradients of all those parameters are complete, and of all that were asked for
  /// before: buckets begin in their order.
  BucketReady after(const std::vector<std::string>& parameters);

 private:
  struct Moment {
    int slot = -1;
    BucketReady ready = {};
  };
  Moment last_use(int program, int gradient) const;

  const std::vector<Program>& programs_;
  std::vector<std::vector<Moment>> last_runs_ = {};  // by program and phase
  Moment latest_ = {};
};

}  // namespace hethub
