#pragma once

#include <cstdint>
#include <vector>

#include "hethub/search/pipeline_tables.h"

namespace hethub {

/// Good sets of pipelines at once, for any number of devices.
///
/// The kinds fall into sets, and the devices of each set are dealt out evenly to some number of
/// pipelines; those of one set are alike up to one stage of each kind. In a pipeline the kinds
/// stand one after another, and layers are given out from the last stage on, as many as a stage
/// may hold in the time and memory it has: the least such time is found by bisection. All stages
/// on a kind have one tensor-parallel width; of the best, each kind's is then tried wider and
/// narrower. Which sets, how many pipelines and which micro-batch size go together follows from
/// the least time in which they take the global batch.
class EvenReplicas {
 public:
  /// Keeps a reference to the tables. Of more than five kinds, only all together and each alone
  /// are looked at.
  explicit EvenReplicas(const PipelineTables& tables);

  /// Sets of pipelines, fastest first by the tables, at most `most` of them; none if nothing fits.
  std::vector<std::vector<ChosenPipeline>> best(std::size_t most) const;

 private:
  /// A bit for each kind.
  using KindSet = std::uint64_t;

  /// So many pipelines of one shape.
  struct Group {
    PipelineColumn column = {};
    std::int64_t pipelines = 0;
  };
  /// The devices of a set of kinds, dealt out.
  struct Option {
    KindSet kinds = 0;
    std::vector<int> widths = {};  // by kind; 0 where it is not of the set
    int size = 0;
    std::vector<Group> groups = {};
    std::int64_t pipelines = 0;
    double after = 0;        // update and exchange, if there are no other pipelines
    double after_mixed = 0;  // if there are
    double seconds = 0;      // to take the whole batch without others
  };

  std::vector<int> kinds_in(KindSet set) const;
  std::vector<int> widths_of(int kind) const;
  void add_options(KindSet kinds);
  double add_option(KindSet kinds, const std::vector<int>& widths, std::int64_t pipelines,
                    int size);
  void vary_widths();
  void drop_the_slower();
  bool best_column(std::vector<int> counts, const std::vector<int>& widths, int size,
                   PipelineColumn& best) const;
  bool column_for(const std::vector<int>& order, const std::vector<int>& counts,
                  const std::vector<int>& widths, int size, PipelineColumn& column) const;
  bool deal_layers(const std::vector<int>& order, const std::vector<int>& counts,
                   const std::vector<int>& widths, int size, double slowest,
                   std::vector<PickedStage>& stages) const;
  std::int64_t sequences_within(const Option& option, double seconds) const;
  double seconds_alone(const Option& option) const;
  std::vector<int> choose(double seconds, std::int64_t most_pipelines, KindSet kinds) const;
  std::vector<ChosenPipeline> pipelines_of(const std::vector<int>& chosen) const;
  std::vector<ChosenPipeline> fastest(std::int64_t most_pipelines, KindSet kinds) const;

  const PipelineTables& tables_;
  std::vector<Option> options_ = {};
};

}  // namespace hethub
