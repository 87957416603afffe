#include "hethub/search/replica_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

#include "hethub/base/deadline.h"
#include "hethub/search/linear_program.h"
#include "hethub/search/pipeline_pricing.h"

namespace hethub {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A part of the space of plans.
struct Box {
  double least_update = 0;
  double most_update = 0;
  double least_exchange = 0;
  double most_exchange = 0;
  std::int64_t least_replicas = 1;
  std::int64_t most_replicas = 1;
  double pipelines_seconds = 0;  // its pipelines are proven to take as long
  double reached_seconds = 0;    // the relaxation takes the batch in this time

  double after() const { return least_update + exchanges(least_replicas) * least_exchange; }
  double bound() const { return pipelines_seconds + after(); }
};

class ReplicaSearch {
 public:
  ReplicaSearch(const PipelineTables& tables, const ReplicaLimits& limits)
      : tables_(tables), limits_(limits), pricing_(tables), end_(after_seconds(limits.seconds)) {}

  ReplicaResult run() {
    Box root = whole_space();
    if (!start(root)) return {};
    const auto later = [](const Box& a, const Box& b) { return a.bound() > b.bound(); };
    std::priority_queue<Box, std::vector<Box>, decltype(later)> open(later);
    open.push(root);
    double closed = best_;  // the least bound of the parts that are not divided further
    while (!open.empty() && open.top().bound() < best_ * (1 - limits_.gap) &&
           result_.boxes < limits_.most_boxes && std::chrono::steady_clock::now() < end_) {
      const Box box = open.top();
      open.pop();
      ++result_.boxes;
      dive_around(box);
      if (!divisible(box)) {
        closed = std::min(closed, box.bound());
        continue;
      }
      for (Box& half : halves(box)) {
        if (bound(half)) open.push(half);
      }
    }
    if (!open.empty()) closed = std::min(closed, open.top().bound());
    result_.step_seconds = best_;
    // What was passed over may have been faster by the gap.
    result_.bound_seconds = std::min(closed, best_ * (1 - limits_.gap));
    return std::move(result_);
  }

 private:
  Box whole_space() const {
    const std::int64_t devices =
        std::accumulate(tables_.available.begin(), tables_.available.end(), 0);
    Box box{.most_replicas = std::min({devices, tables_.global_batch, limits_.most_replicas})};
    for (const StageCost& cost : tables_.costs) {
      if (cost.deepest == 0) continue;
      box.most_update = std::max(box.most_update, cost.update);
      box.most_exchange = std::max(box.most_exchange, cost.exchange);
    }
    for (int layer = 0; layer < tables_.layers; ++layer) {  // some stage has it
      double update = kNever;
      double exchange = kNever;
      for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
        for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
          const StageCost& cost = tables_.cost(size, choice, layer, layer + 1);
          if (cost.deepest == 0) continue;
          update = std::min(update, cost.update);
          exchange = std::min(exchange, cost.exchange);
        }
      }
      box.least_update = std::max(box.least_update, update);
      box.least_exchange = std::max(box.least_exchange, exchange);
    }
    return box;
  }

  // Finds a first plan and the bound of the whole space. False if nothing fits.
  bool start(Box& root) {
    if (root.most_replicas < 1 || root.least_update == kNever) return false;
    double high = 1e-6;
    while (!possible(root, high)) {
      high *= 4;
      if (high > 1e15) return false;
    }
    best_ = kNever;
    narrow(root, high);
    for (double more = 1; best_ == kNever && more < 1e6; more *= 2) {
      dive(root, root.reached_seconds * more);
    }
    return best_ < kNever;
  }

  double tolerance() const { return limits_.gap / 2; }

  // The least time in which the relaxation takes the batch, to within the tolerance.
  void narrow(Box& box, double high) {
    double low = box.pipelines_seconds;
    while (high - low > tolerance() * (high + box.after())) {
      const double middle = low > 0 ? (low + high) / 2 : high / 2;
      (possible(box, middle) ? high : low) = middle;
    }
    box.pipelines_seconds = low;
    box.reached_seconds = high;
  }

  // False if no plan in the box is faster than the best one.
  bool bound(Box& box) {
    const double most = best_ * (1 - limits_.gap) - box.after();
    if (most <= box.pipelines_seconds || !possible(box, most)) return false;
    narrow(box, most);
    return true;
  }

  bool divisible(const Box& box) const { return widest(box).second > tolerance() / 20 * best_; }

  // Which side to divide, and what it leaves uncertain in seconds.
  std::pair<int, double> widest(const Box& box) const {
    const double update = box.most_update - box.least_update;
    const double exchange = exchanges(box.most_replicas) * (box.most_exchange - box.least_exchange);
    const double replicas =
        (exchanges(box.most_replicas) - exchanges(box.least_replicas)) * box.least_exchange;
    if (replicas >= update && replicas >= exchange) return {2, replicas};
    return update >= exchange ? std::pair{0, update} : std::pair{1, exchange};
  }

  std::vector<Box> halves(const Box& box) const {
    Box low = box;
    Box high = box;
    const int side = widest(box).first;
    if (side == 0) {
      low.most_update = high.least_update = (box.least_update + box.most_update) / 2;
    } else if (side == 1) {
      low.most_exchange = high.least_exchange = (box.least_exchange + box.most_exchange) / 2;
    } else {
      // Where the share of the exchange is half-way.
      const double inverse = (1.0 / static_cast<double>(box.least_replicas) +
                              1.0 / static_cast<double>(box.most_replicas)) /
                             2;
      low.most_replicas = std::clamp(static_cast<std::int64_t>(1 / inverse), box.least_replicas,
                                     box.most_replicas - 1);
      high.least_replicas = low.most_replicas + 1;
    }
    return {high, low};
  }

  std::vector<LinearColumn> columns_for(const Box& box, double seconds,
                                        const std::vector<int>& devices,
                                        std::vector<int>& which) const {
    std::vector<LinearColumn> columns;
    which.clear();
    for (std::size_t index = 0; index < pool_.size(); ++index) {
      const PipelineColumn& one = pool_[index];
      if (one.update > box.most_update || one.exchange > box.most_exchange) continue;
      bool fits = true;
      for (std::size_t kind = 0; kind < devices.size(); ++kind) {
        fits = fits && one.devices[kind] <= devices[kind];
      }
      const std::int64_t count = fits ? micro_batches_within(tables_, one, seconds) : 0;
      if (count == 0) continue;
      LinearColumn column{.gain = static_cast<double>(count * tables_.sizes[one.size])};
      column.uses.assign(one.devices.begin(), one.devices.end());
      column.uses.push_back(1);
      columns.push_back(std::move(column));
      which.push_back(static_cast<int>(index));
    }
    return columns;
  }

  // Whether the relaxation takes the batch in that time, if nothing proves that it doesn't.
  bool possible(const Box& box, double seconds) {
    const auto batch = static_cast<double>(tables_.global_batch);
    std::vector<double> resources(tables_.available.begin(), tables_.available.end());
    resources.push_back(static_cast<double>(box.most_replicas));
    while (true) {
      std::vector<int> which;
      const LinearSolution relaxed = solve(columns_for(box, seconds, {}, which), resources);
      if (relaxed.gain >= batch) return true;
      double value = 0;
      for (std::size_t one = 0; one < resources.size(); ++one) {
        value += resources[one] * relaxed.prices[one];
      }
      const double enough = value > 0 ? batch / value * (1 - 1e-9) : 0;
      const Generated generated = generate(box, seconds, relaxed, {}, enough);
      if (generated.found == 0) return false;
      // Rounding made known shapes seem to be worth more than they are: nothing is proven.
      if (generated.added == 0) return true;
    }
  }

  struct Generated {
    int found = 0;  // shapes worth more than asked for
    int added = 0;  // of which new
  };

  Generated generate(const Box& box, double seconds, const LinearSolution& relaxed,
                     const std::vector<int>& most_devices, double enough) {
    PricingQuestion question{.seconds = seconds,
                             .most_update = box.most_update,
                             .most_exchange = box.most_exchange,
                             .prices = relaxed.prices,
                             .pipeline_price = relaxed.prices.back(),
                             .most_devices = most_devices,
                             .enough = enough};
    question.prices.pop_back();
    Generated generated;
    for (PipelineColumn& column : pricing_.find(question).columns) {
      ++generated.found;
      if (!known_.insert(key_of(column)).second) continue;
      pool_.push_back(std::move(column));
      ++generated.added;
    }
    return generated;
  }

  static std::vector<int> key_of(const PipelineColumn& column) {
    std::vector<int> key = {column.size};
    for (const PickedStage& stage : column.stages) {
      key.insert(key.end(), {stage.choice, stage.begin, stage.end});
    }
    return key;
  }

  // Whole numbers of pipelines may need more time than the relaxation, the more so the fewer
  // devices there are.
  void dive_around(const Box& box) {
    constexpr int kFew = 64;
    dive(box, box.reached_seconds);
    if (std::accumulate(tables_.available.begin(), tables_.available.end(), 0) > kFew) return;
    for (const double more : {1.03, 1.08, 1.15, 1.25, 1.4, 1.7}) {
      if (box.reached_seconds * more + box.after() < 1.05 * best_) {
        dive(box, box.reached_seconds * more);
      }
    }
  }

  // Rounds the relaxation's answer down, and again for what is left, until the batch is taken.
  void dive(const Box& box, double seconds) {
    std::vector<int> left = tables_.available;
    std::int64_t replicas = box.most_replicas;
    std::int64_t sequences = 0;
    std::vector<PipelineColumn> taken;
    while (sequences < tables_.global_batch && replicas > 0) {
      std::vector<int> which;
      const std::vector<double> amounts = relax(box, seconds, left, replicas, which);
      if (which.empty()) break;
      bool whole = false;
      std::size_t most = 0;
      for (std::size_t one = 0; one < which.size(); ++one) {
        whole = whole || amounts[one] >= 1 - 1e-9;
        if (amounts[one] > amounts[most]) most = one;
      }
      for (std::size_t one = 0; one < which.size(); ++one) {
        auto count = static_cast<std::int64_t>(amounts[one] + 1e-9);
        if (!whole && one == most) count = 1;
        const PipelineColumn& column = pool_[which[one]];
        const std::int64_t each =
            micro_batches_within(tables_, column, seconds) * tables_.sizes[column.size];
        for (; count > 0 && sequences < tables_.global_batch; --count) {
          taken.push_back(column);
          sequences += each;
          --replicas;
          for (std::size_t kind = 0; kind < left.size(); ++kind) {
            left[kind] -= column.devices[kind];
          }
        }
      }
    }
    if (!taken.empty()) consider(taken);
  }

  std::vector<double> relax(const Box& box, double seconds, const std::vector<int>& left,
                            std::int64_t replicas, std::vector<int>& which) {
    std::vector<double> resources(left.begin(), left.end());
    resources.push_back(static_cast<double>(replicas));
    constexpr int kRounds = 4;
    for (int round = 0;; ++round) {
      LinearSolution relaxed = solve(columns_for(box, seconds, left, which), resources);
      if (round == kRounds || generate(box, seconds, relaxed, left, 1 + 1e-6).added == 0) {
        return relaxed.amounts;
      }
    }
  }

  void consider(const std::vector<PipelineColumn>& columns) {
    std::vector<ChosenPipeline> chosen = balanced(tables_, columns);
    const double seconds = step_seconds_of(chosen);
    if (seconds >= best_) return;
    best_ = seconds;
    result_.pipelines = std::move(chosen);
  }

  const PipelineTables& tables_;
  const ReplicaLimits limits_;
  PipelinePricing pricing_;
  Deadline end_;
  std::vector<PipelineColumn> pool_ = {};
  std::set<std::vector<int>> known_ = {};
  double best_ = kNever;
  ReplicaResult result_ = {};
};

}  // namespace

ReplicaResult search_replicas(const PipelineTables& tables, const ReplicaLimits& limits) {
  return ReplicaSearch(tables, limits).run();
}

}  // namespace hethub
