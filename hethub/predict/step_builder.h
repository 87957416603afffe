#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hethub/collective/algorithm.h"
#include "hethub/cost/cost_model.h"
#include "hethub/predict/simulator.h"

namespace hethub {

/// What a bar of the timeline is.
struct SimLabel {
  std::string lane = {};      ///< "compute" or "comm"
  std::string name = {};      ///< as the trace of a real run names it
  std::string category = {};  ///< "forward", "send", ...
};

/// Writes down what the ranks of a cluster do in a step, as tasks whose costs come from a
/// CostModel. Keeps a reference to the model.
class StepBuilder {
 public:
  explicit StepBuilder(const CostModel& costs);

  /// Remembers a label; its number goes with tasks.
  int add_label(SimLabel label);

  /// A new message, to be sent once and received once.
  int add_message() { return step_.messages++; }

  /// `rank` computes for `seconds`.
  void work(int rank, double seconds, int label = -1);

  /// `rank` copies to the host where its route needs that, and posts the message.
  void send(int rank, int peer, double bytes, int message, int label = -1);

  /// `rank` waits for the message and copies it to its device where its route needs that.
  void recv(int rank, int peer, double bytes, int message, int label = -1);

  /// The ranks of `group` run `algorithm`, chunk c having `chunks[c]` elements of `dtype`.
  /// A reduce or copy of a chunk costs what an Accumulate of it costs on that kind.
  void collective(const std::vector<int>& group, const CollectiveAlgorithm& algorithm,
                  const ChunkTable& chunks, DType dtype, int label = -1);

  const SimStep& step() const { return step_; }
  const std::vector<SimLabel>& labels() const { return labels_; }

 private:
  const TransferRates& rates(int from, int to);
  double accumulate_seconds(int rank, std::int64_t count, DType dtype);

  const CostModel& costs_;
  SimStep step_;
  std::vector<SimLabel> labels_;
  std::map<std::pair<int, int>, TransferRates> rates_;
  std::map<std::pair<int, int>, int> channels_;
  std::map<std::pair<std::string, std::pair<std::int64_t, DType>>, double> accumulate_;
};

}  // namespace hethub
