#pragma once

#include <cstdint>
#include <vector>

#include "hethub/search/pipeline_tables.h"

namespace hethub {

/// Good sets of pipelines at once, for any number of devices.
///
/// The kinds fall into sets, and the devices of each set are dealt out evenly to some number of
/// pipelines; those of one set are alike up to one device of each kind. In a pipeline the kinds
/// stand one after another, and layers are given out from the last stage on, as many as a stage
/// may hold in the time and memory it has: the least such time is found by bisection. Which sets,
/// how many pipelines and which micro-batch size go together follows from the least time in which
/// they take the global batch.
class EvenReplicas {
 public:
  /// Keeps a reference to the tables.
  explicit EvenReplicas(const PipelineTables& tables);

  /// Sets of pipelines, fastest first by the tables, at most `most` of them; none if nothing fits.
  std::vector<std::vector<ChosenPipeline>> best(std::size_t most) const;

 private:
  /// So many pipelines of one shape.
  struct Group {
    PipelineColumn column = {};
    std::int64_t pipelines = 0;
  };
  /// The devices of a set of kinds, dealt out.
  struct Option {
    std::uint32_t kinds = 0;  // a bit for each
    std::vector<Group> groups = {};
    std::int64_t pipelines = 0;
    double after = 0;  // update and exchange
  };

  void add_options(std::uint32_t kinds);
  void add_option(std::uint32_t kinds, std::int64_t pipelines, int size);
  bool best_column(std::vector<int> counts, int size, PipelineColumn& best) const;
  bool column_for(const std::vector<int>& order, const std::vector<int>& counts, int size,
                  PipelineColumn& column) const;
  bool deal_layers(const std::vector<int>& order, const std::vector<int>& counts, int size,
                   double slowest, std::vector<PickedStage>& stages) const;
  std::int64_t sequences_within(const Option& option, double seconds) const;
  std::vector<int> choose(double seconds, std::int64_t most_pipelines, std::uint32_t kinds) const;
  std::vector<ChosenPipeline> fastest(std::int64_t most_pipelines, std::uint32_t kinds) const;

  const PipelineTables& tables_;
  std::vector<Option> options_ = {};
};

}  // namespace hethub
