#pragma once

#include <vector>

#include "hethub/search/pipeline_tables.h"

namespace hethub {

/// Which pipelines are sought: those that take many sequences for what their devices are worth.
struct PricingQuestion {
  double seconds = 0;                  ///< a pipeline has so long
  double most_update = 0;              ///< no stage has a longer one
  double most_exchange = 0;            ///< likewise
  std::vector<double> prices = {};     ///< of a device, by kind, in sequences
  double pipeline_price = 0;           ///< of each pipeline on top
  std::vector<int> most_devices = {};  ///< by kind; empty: any number
  double enough = 1;                   ///< worth below which no pipeline is sought
};

/// A pipeline's worth is its sequences over its price.
struct PricingAnswer {
  std::vector<PipelineColumn> columns = {};  ///< the worthiest of each micro-batch size
  double worth = 0;  ///< no pipeline has more, but those that `most_devices` rules out
};

/// Finds the pipelines of the highest worth, exactly.
///
/// Dynamic programming over layers from the last to the first, for stages no slower than some
/// bound: labels (price, seconds, stages so far) at each layer, of which only those that no other
/// beats in all three are kept, and only if what is left could still be worth enough. The bounds
/// are those of the table; a range of them is passed over where its fastest and its slowest
/// together prove it worth too little.
class PipelinePricing {
 public:
  /// Keeps a reference to the tables.
  explicit PipelinePricing(const PipelineTables& tables);

  PricingAnswer find(const PricingQuestion& question);

 private:
  struct Label {
    double price = 0;
    double seconds = 0;
    double slowest = 0;
    int stages = 0;
    int parent = -1;
    PickedStage stage = {};
  };

  /// Stages of one choice that end at one layer, by their first layer, and which of them the
  /// question allows.
  struct Ends {
    std::vector<double> seconds = {};  // falling
    int first = 0;                     // the longest stage that is allowed begins here
    int first_in_range = 0;            // likewise, and is no slower than the range's slowest
  };

  Ends& ends(int choice, int end) {
    return ends_[(static_cast<std::size_t>(size_) * tables_.choices.size() + choice) *
                     tables_.layers +
                 end - 1];
  }
  void apply_limits();
  void search_range(std::size_t first, std::size_t last, bool rest_known);
  void find_rest(double slowest_allowed);
  double grow_labels(double fastest);
  void extend(int label, double fastest, double& relaxed);
  void finish(const Label& label, double fastest, double& relaxed);
  double worth_of(double price, double seconds, double slowest) const;
  bool too_many_devices(int label, const StageChoice& more) const;
  void add_label(const Label& label);

  const PipelineTables& tables_;
  std::vector<std::vector<double>> times_ = {};  // by size: every StageCost::seconds, ascending
  std::vector<Ends> ends_ = {};                  // by size, choice and end
  PricingQuestion question_ = {};
  int size_ = 0;
  int likely_size_ = 0;  // the best of the last question: tried first, it rules out much
  double best_ = 0;
  double size_best_ = 0;
  PipelineColumn size_column_ = {};
  std::vector<double> rest_price_ = {};    // the least of layers [0, n)
  std::vector<double> rest_seconds_ = {};  // likewise
  std::vector<double> least_price_ = {};   // see find_rest
  std::vector<Label> labels_ = {};
  std::vector<std::vector<int>> at_ = {};  // labels whose first layer is n
};

}  // namespace hethub
