#include "hethub/search/strategy.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/search/exact.h"
#include "hethub/search/scaled.h"
#include "hethub/search/search_cache.h"

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

// With more devices, the plans are too many to be looked at one by one.
constexpr int kMostExact = 8;

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
    if (wide || (devices > kMostExact && !shaped)) return ScaledSearch(request).run();
    SearchResult result = ExactSearch(request).run();
    if (!result.best.empty() || shaped || pins.tensor_parallel) return result;
    SearchResult split = ScaledSearch(request).run();  // a width of 1 is too little
    return split.best.empty() ? std::move(result) : std::move(split);
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
  return request;
}

std::unique_ptr<Strategy> make_strategy(std::string_view name) {
  if (name != "exact") {
    throw Error(ErrorCode::kUsage, {.what = "planner's strategy",
                                    .found = std::string(name),
                                    .expected = "exact",
                                    .fix = "choose it"});
  }
  return std::make_unique<ExactStrategy>();
}

}  // namespace hethub
