#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hethub/cost/cost_model.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"
#include "hethub/predict/predict.h"
#include "hethub/search/stage_pricer.h"

namespace hethub {

class SearchCache;

/// Parts of a plan that the user fixes. What is not set is free.
struct Pins {
  std::optional<int> pipelines = {};         ///< "pipelines=2"
  std::optional<int> stages = {};            ///< "stages=2": of every pipeline
  std::optional<int> micro_batch_size = {};  ///< "micro_batch_size=4"
  std::optional<Recompute> recompute = {};   ///< "recompute=full": of every stage
  std::optional<int> tensor_parallel = {};   ///< "tensor_parallel=2": of every stage
  std::string schedule = {};                 ///< "schedule=gpipe"
  std::string variant = {};  ///< "schedule=zero-bubble": of the best plan, see vary_schedule
  std::set<std::string> kinds = {};            ///< "kinds=cpu,opencl": no other is used
  std::map<int, std::string> stage_kind = {};  ///< "stage0.kind=cpu": of every pipeline
  std::map<int, int> stage_layers = {};        ///< "stage0.layers=3": of every pipeline

  /// Whether devices of this kind may be used.
  bool allow(const std::string& kind) const { return kinds.empty() || kinds.contains(kind); }
};

/// Adds "KEY=VALUE" to the pins. Throws kUsage, with the nearest key, for what is no pin.
void add_pin(Pins& pins, const std::string& pin);

/// What is asked of a planner. Refers to the cost model.
struct SearchRequest {
  explicit SearchRequest(const CostModel& all_costs) : costs(all_costs) {}

  const CostModel& costs;
  ModelConfig model = {};
  std::string model_path = {};  ///< as the plan is to name it
  std::int64_t sequence_length = 0;
  std::int64_t global_batch = 0;   ///< sequences per step; every plan takes exactly these
  DType dtype = DType::kF32;       ///< Plan::dtype of every plan
  bool sequence_parallel = false;  ///< Plan::sequence_parallel of every plan
  std::vector<int> micro_batch_sizes = {1, 2, 4, 8, 16, 32, 64};
  std::vector<std::string> schedules = priced_schedules();  ///< in case of a tie the first wins
  std::size_t keep = 5;
  double time_limit_s = 30;
  Pins pins = {};
  bool quick = false;  ///< with many devices, take what is found at once, and predict of it only
                       ///< step_seconds and tokens_per_second
  std::uint64_t seed = 1;        ///< of "mcmc"
  int walk_steps = 2000;         ///< likewise: at most so many
  bool vary_schedule = false;    ///< whether upper_bound_of does what vary_schedule does, too
  SearchCache* cache = nullptr;  ///< of this model, cluster and form(); null: its own;
                                 ///< see own_cache

  JobForm form() const { return {sequence_length, dtype, sequence_parallel}; }

  /// Those of `schedules` that the pins leave: at least one.
  std::vector<std::string> allowed_schedules() const {
    return pins.schedule.empty() ? schedules : std::vector<std::string>{pins.schedule};
  }
};

/// The same request on another cluster, without a cache. Refers to `costs`.
SearchRequest request_on(const CostModel& costs, const SearchRequest& like);

struct Candidate {
  Plan plan = {};
  Prediction prediction = {};
};

/// A plan that would be but for its memory.
struct Shortage {
  Plan plan = {};
  int rank = 0;
  std::string kind = {};
  std::int64_t bytes_short = 0;
};

/// The answer, with enough to explain an empty one.
struct SearchResult {
  std::vector<Candidate> best = {};  ///< plans that fit, fastest first
  double bound_seconds = 0;          ///< no plan of the space is proven faster than this
  bool complete = false;  ///< every plan was simulated or proven slower than the last of `best`
  /// Whether zero-bubble and interleaved schedules were tried, of the best plan alone: neither
  /// bound_seconds nor complete says anything of other plans under them.
  bool tried_schedules = false;
  std::int64_t simulated = 0;
  std::int64_t too_big = 0;
  std::optional<Shortage> nearest = {};  ///< of the plans that do not fit, the one that lacks least
};

/// A way to look for plans.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Never throws for a space without a plan that fits: see SearchResult::nearest. Throws
  /// kInvalidConfig or kInvalidPlan for a request that no plan can meet, naming what to change.
  virtual SearchResult find(const SearchRequest& request) const = 0;
};

/// "exact": simulates every plan of the space that is not proven slower than those it keeps.
///
/// The space: any number of pipelines, each a sequence of ranks of any kinds, one rank a stage, in
/// any order; every split of the layers (where a pipeline has one kind only, sizes that differ by
/// at most one); the micro-batch sizes and schedules of the request; any division of the global
/// batch. Alike devices go to pipelines in any order, to more than four in one. A stage recomputes
/// nothing where the memory allows it, which is never slower, else its first layers, as few as will
/// do, selective or full: what takes less time. For up to 8 devices, unless the layers can
/// be split in more than 300,000 ways over them, or if pins fix stages or pipelines; with more see
/// ScaledSearch, which knows tensor-parallel stages, too: plans are good, and bound_seconds says
/// what may be missed. Few devices that can form tensor-parallel groups are searched in both ways,
/// within one time limit. "mcmc": see McmcStrategy. Throws
/// kUsage for another name.
std::unique_ptr<Strategy> make_strategy(std::string_view name);

}  // namespace hethub
