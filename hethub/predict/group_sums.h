#pragma once

#include <map>
#include <vector>

#include "hethub/plan/segments.h"
#include "hethub/predict/step_builder.h"

namespace hethub {

/// Seconds of the collectives of many ranks, each kept for all that are alike.
///
/// A collective of more members than a few dozen is priced by its first and its last members, with
/// chunks as large; the others make it longer in proportion, as the rounds of a ring do.
class GroupSums {
 public:
  /// Keeps a reference.
  explicit GroupSums(const StepBuilder& builder) : builder_(builder) {}

  /// Of a segment's gradients and of its parameters, on those devices of the cluster.
  double gradient_seconds(const Segment& segment, const std::vector<int>& devices);
  double parameter_seconds(const Segment& segment, const std::vector<int>& devices);

  /// Of what every rank tells every other at the end of a step: of many ranks, the same bytes among
  /// few, whose messages travel side by side as theirs do.
  double summary_seconds(const std::vector<int>& devices) const;

 private:
  using Choose = CollectiveAlgorithm (*)(const Segment& segment);
  double seconds(const Segment& segment, const std::vector<int>& devices, Choose choose);

  const StepBuilder& builder_;
  std::map<std::vector<std::int64_t>, double> known_ = {};
};

}  // namespace hethub
