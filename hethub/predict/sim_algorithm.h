#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "hethub/collective/algorithm.h"
#include "hethub/collective/interpreter.h"
#include "hethub/plan/segments.h"

namespace hethub {

/// A collective's algorithm with what every simulated call of it needs to know.
struct SimAlgorithm {
  /// All messages of one member to another.
  struct Pair {
    int sender = 0;
    int receiver = 0;
    int messages = 0;
  };

  explicit SimAlgorithm(CollectiveAlgorithm of);

  CollectiveAlgorithm algorithm;
  std::vector<StepOrder> orders = {};               ///< by member
  std::vector<Pair> pairs = {};                     ///< in the order of their first sends
  std::vector<std::vector<int>> pair_of_step = {};  ///< by member and step; -1 for no message
};

/// What the holders of segments run, written down once for all of as many elements whose holders
/// are as many, and of the same kinds in the same places.
class SegmentAlgorithms {
 public:
  /// `choose` is gradient_algorithm or parameter_algorithm.
  using Choose = CollectiveAlgorithm (*)(const Segment& segment);

  std::shared_ptr<const SimAlgorithm> of(const Segment& segment, Choose choose);

 private:
  using Key = std::tuple<Choose, std::size_t, std::int64_t, std::vector<std::vector<int>>>;
  std::map<Key, std::shared_ptr<const SimAlgorithm>> known_ =
      {};  // shared by the calls that the tasks are written for
};

}  // namespace hethub
