#include "hethub/search/strategy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/search/exact.h"
#include "hethub/search/mcmc.h"
#include "hethub/search/scaled.h"
#include "hethub/search/search_cache.h"
#include "hethub/search/widths.h"

namespace hethub {
namespace {

[[noreturn]] void refuse(std::string what, std::string found, std::string expected,
                         std::string fix) {
  throw Error(ErrorCode::kInvalidPlan, {.what = std::move(what),
                                        .found = std::move(found),
                                        .expected = std::move(expected),
                                        .fix = std::move(fix)});
}

void check(const SearchRequest& request, int devices) {
  const Pins& pins = request.pins;
  if (request.global_batch < 1) {
    refuse("--global-batch", text(request.global_batch), "1 or more", "give it sequences");
  }
  if (request.sequence_length < 1 ||
      request.sequence_length > request.model.max_position_embeddings) {
    refuse("--sequence-length", text(request.sequence_length),
           text("1 to max_position_embeddings=", request.model.max_position_embeddings),
           "shorten the sequences");
  }
  if (devices == 0) {
    refuse("devices to plan for", "none of the kinds asked for", "1 or more",
           "correct --pin kinds=, or add devices to the cluster file");
  }
  const int stages = std::max(pins.stages.value_or(1),
                              pins.stage_kind.empty() ? 1 : pins.stage_kind.rbegin()->first + 1);
  if (stages > request.model.layers) {
    refuse("--pin stages", text(stages),
           text("at most ", request.model.layers, ", the layers of the model"),
           "each stage needs a layer");
  }
  const int ranks = stages * pins.pipelines.value_or(1);
  if (ranks > devices) {
    refuse("--pin pipelines and stages", text(ranks, " ranks"), text("at most ", devices),
           "lower one of them, or add devices");
  }
  if (pins.micro_batch_size && request.global_batch % *pins.micro_batch_size != 0) {
    refuse("--global-batch", text(request.global_batch),
           text("a multiple of micro_batch_size=", *pins.micro_batch_size),
           "change one of the two");
  }
  if (pins.pipelines && *pins.pipelines > request.global_batch) {
    refuse("--global-batch", text(request.global_batch),
           text("at least ", *pins.pipelines, ", a sequence for each pipeline"), "raise it");
  }
}

// With more devices, or layers, the plans are too many to be looked at one by one.
bool is_large(const SearchRequest& request, int devices) {
  constexpr int kMostDevices = 8;
  constexpr double kMostSplits = 3e5;
  return devices > kMostDevices || ExactSearch::splits_of_space(request) > kMostSplits;
}

// Puts what was found with tensor-parallel stages among the plans without. Both bounds hold in
// their own space.
void merge(SearchResult& result, SearchResult wide, std::size_t keep) {
  result.simulated += wide.simulated;
  result.too_big += wide.too_big;
  if (wide.best.empty()) {  // and so no bound either
    result.complete = result.complete && wide.complete;
    return;
  }
  std::move(wide.best.begin(), wide.best.end(), std::back_inserter(result.best));
  std::stable_sort(result.best.begin(), result.best.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.prediction.step_seconds < b.prediction.step_seconds;
                   });
  if (result.best.size() > keep) result.best.resize(keep);
  result.bound_seconds = std::min(result.bound_seconds, wide.bound_seconds);
  result.complete = result.complete && wide.complete;
}

class ExactStrategy : public Strategy {
 public:
  SearchResult find(const SearchRequest& request) const override {
    const Pins& pins = request.pins;
    const std::vector<RankPlace>& places = request.costs.ranks();
    const auto devices =
        static_cast<int>(std::count_if(places.begin(), places.end(), [&](const RankPlace& place) {
          return pins.allow(place.kind);
        }));
    check(request, devices);
    const bool shaped =
        pins.pipelines || pins.stages || !pins.stage_kind.empty() || !pins.stage_layers.empty();
    const bool wide = pins.tensor_parallel.value_or(1) > 1;
    if (wide && shaped) {
      refuse("--pin tensor_parallel", text(*pins.tensor_parallel),
             "no other pin of stages or pipelines", "let go of one of them");
    }
    if (wide || (!shaped && is_large(request, devices))) return ScaledSearch(request).run();
    if (shaped || !may_be_wide(request)) return ExactSearch(request).run();
    return find_narrow_and_wide(request);
  }

 private:
  // Both keep the time limit together.
  static SearchResult find_narrow_and_wide(const SearchRequest& request) {
    const double begin_s = seconds_now();
    SearchRequest part = request;
    constexpr double kNarrow = 0.7;
    part.time_limit_s = kNarrow * request.time_limit_s;
    SearchResult result = ExactSearch(part).run();
    part.time_limit_s = std::max(0.0, begin_s + request.time_limit_s - seconds_now());
    if (result.best.empty()) {  // a width of 1 is too little
      SearchResult split = ScaledSearch(part).run();
      return split.best.empty() ? std::move(result) : std::move(split);
    }
    part.quick = true;
    SearchResult split = ScaledSearch(part).run();
    if (!request.quick) {
      for (Candidate& one : split.best) {
        one.prediction = predict(one.plan, request.model, request.costs);
        one.plan.predicted_step_seconds = one.prediction.step_seconds;
      }
    }
    merge(result, std::move(split), request.keep);
    return result;
  }
};

}  // namespace

std::unique_ptr<SearchCache> own_cache(const SearchRequest& request) {
  if (request.cache != nullptr) return nullptr;
  return std::make_unique<SearchCache>(request.model, request.costs, request.form());
}

SearchRequest request_on(const CostModel& costs, const SearchRequest& like) {
  SearchRequest request(costs);
  request.model = like.model;
  request.model_path = like.model_path;
  request.sequence_length = like.sequence_length;
  request.global_batch = like.global_batch;
  request.dtype = like.dtype;
  request.sequence_parallel = like.sequence_parallel;
  request.micro_batch_sizes = like.micro_batch_sizes;
  request.schedules = like.schedules;
  request.keep = like.keep;
  request.time_limit_s = like.time_limit_s;
  request.pins = like.pins;
  request.quick = like.quick;
  request.seed = like.seed;
  request.walk_steps = like.walk_steps;
  request.vary_schedule = like.vary_schedule;
  return request;
}

std::unique_ptr<Strategy> make_strategy(std::string_view name) {
  if (name == "mcmc") return std::make_unique<McmcStrategy>();
  if (name != "exact") {
    throw Error(ErrorCode::kUsage, {.what = "planner's strategy",
                                    .found = std::string(name),
                                    .expected = "exact or mcmc",
                                    .fix = "choose one of the two"});
  }
  return std::make_unique<ExactStrategy>();
}

}  // namespace hethub
