#include "hethub/search/reasons.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/search/parallel.h"
#include "hethub/search/schedule_variants.h"

namespace hethub {
namespace {

std::map<std::string, int> devices_by_kind(const SearchRequest& request) {
  std::map<std::string, int> devices;
  for (const RankPlace& place : request.costs.ranks()) {
    if (request.pins.allow(place.kind)) ++devices[place.kind];
  }
  return devices;
}

struct Rate {
  double tokens_per_second = 0;
  bool proven = true;
  Plan plan = {};
};

Rate best_rate(const SearchRequest& request, const Strategy& strategy) {
  SearchResult result = strategy.find(request);
  if (result.best.empty()) return {.proven = result.complete};
  Candidate& best = result.best.front();
  return {best.prediction.tokens_per_second, result.complete, std::move(best.plan)};
}

// Shares in proportion to the rates, by largest remainder; every kind that works gets one at least.
void share_out(std::vector<KindAlone>& kinds, double rates, std::int64_t sequences) {
  std::vector<std::pair<double, KindAlone*>> rests;
  std::int64_t given = 0;
  for (KindAlone& kind : kinds) {
    const double exact = static_cast<double>(sequences) * kind.tokens_per_second / rates;
    kind.sequences = std::max<std::int64_t>(1, static_cast<std::int64_t>(exact));
    given += kind.sequences;
    rests.emplace_back(static_cast<double>(kind.sequences) - exact, &kind);
  }
  std::sort(rests.begin(), rests.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t index = 0; given < sequences; ++index, ++given) {
    ++rests[index % rests.size()].second->sequences;
  }
}

double rate_of(const SearchResult& result) {
  return result.best.empty() ? 0 : result.best.front().prediction.tokens_per_second;
}

// What the kinds' best plans reach under other schedules.
void vary_schedules(const SearchRequest& alone, std::vector<SearchResult>& found,
                    UpperBound& bound) {
  for_each_in_parallel(static_cast<int>(found.size()), [&](int index) {
    KindAlone& kind = bound.kinds[index];
    SearchRequest mine = alone;
    mine.pins.kinds = {kind.kind};
    mine.global_batch = kind.sequences;
    const double rate = rate_of(found[index]);
    vary_schedule(found[index], mine);
    // A kind whose best plan has no pipelines keeps it, whatever schedule is asked of them.
    kind.tokens_per_second = found[index].tried_schedules ? rate_of(found[index]) : rate;
    kind.proven = kind.proven && !found[index].tried_schedules;
  });
  bound.tokens_per_second = 0;
  for (const KindAlone& kind : bound.kinds) {
    bound.tokens_per_second += kind.tokens_per_second;
  }
}

std::string percent(double share) { return text(std::round(1000 * share) / 10, "%"); }

const RankPrediction& busiest(const Prediction& prediction) {
  return *std::max_element(prediction.ranks.begin(), prediction.ranks.end(),
                           [](const RankPrediction& a, const RankPrediction& b) {
                             return a.compute_seconds + a.transfer_seconds + a.update_seconds <
                                    b.compute_seconds + b.transfer_seconds + b.update_seconds;
                           });
}

int layers_of(const Stage& stage) {
  int all = 0;
  for (const LayerRange& range : stage.layers) {
    all += range.size();
  }
  return all;
}

// The layers of stages in a row that have as many each.
std::string range_text(const Stage& first, const Stage& last) {
  const std::size_t ranges = first.layers.size();
  if (ranges > 1) return text(layers_of(first), " in ", ranges, " parts");
  return text(first.layers.front().begin, "-", last.layers.back().end);
}

// Stages in a row that are alike but for their layers stand together.
std::string stages_text(const Pipeline& pipeline) {
  std::string line;
  for (std::size_t first = 0; first < pipeline.stages.size();) {
    const Stage& stage = pipeline.stages[first];
    std::size_t next = first + 1;
    const auto alike = [&](const Stage& other) {
      return other.kind == stage.kind && other.tensor_parallel == stage.tensor_parallel &&
             other.recompute.empty() == stage.recompute.empty() &&
             layers_of(other) == layers_of(stage);
    };
    while (next < pipeline.stages.size() && alike(pipeline.stages[next]))
      ++next;
    line += text(" ", next - first == 1 ? "" : text(next - first, "*"), stage.kind,
                 stage.tensor_parallel > 1 ? text("/tp", stage.tensor_parallel) : "", "[",
                 range_text(stage, pipeline.stages[next - 1]),
                 stage.recompute.empty() ? "" : " recompute", "]");
    first = next;
  }
  return line;
}

}  // namespace

bool UpperBound::holds_for(double plan_tokens_per_second) const {
  return tokens_per_second >= plan_tokens_per_second &&
         std::all_of(kinds.begin(), kinds.end(), [](const KindAlone& kind) { return kind.proven; });
}

UpperBound upper_bound_of(const SearchRequest& request, const Strategy& strategy) {
  SearchRequest alone = request;
  alone.keep = 1;
  alone.pins = {.micro_batch_size = {},
                .recompute = request.pins.recompute,
                .schedule = request.pins.schedule,
                .variant = request.pins.variant};
  UpperBound bound;
  const auto devices = devices_by_kind(request);
  for (const auto& [kind, count] : devices) {
    bound.kinds.push_back(
        {.kind = kind,
         .devices = count,
         .sequences = std::max<std::int64_t>(1, request.global_batch / std::ssize(devices))});
  }
  const int rounds = request.quick ? 2 : 3;
  std::vector<SearchResult> found(bound.kinds.size());
  alone.time_limit_s = request.time_limit_s / static_cast<double>(rounds * std::ssize(bound.kinds));
  // The shares follow from the rates, which depend a little on the shares.
  for (int round = 0; round < rounds; ++round) {
    bound.tokens_per_second = 0;
    std::vector<std::int64_t> before;
    for_each_in_parallel(static_cast<int>(bound.kinds.size()), [&](int index) {
      KindAlone& kind = bound.kinds[index];
      SearchRequest mine = alone;
      mine.pins.kinds = {kind.kind};
      mine.global_batch = kind.sequences;
      found[index] = strategy.find(mine);
      kind.tokens_per_second = rate_of(found[index]);
      kind.proven = found[index].complete;
    });
    for (const KindAlone& kind : bound.kinds) {
      before.push_back(kind.sequences);
      bound.tokens_per_second += kind.tokens_per_second;
    }
    if (bound.tokens_per_second <= 0 || round + 1 == rounds) break;
    share_out(bound.kinds, bound.tokens_per_second, request.global_batch);
    bool same = true;
    for (std::size_t index = 0; index < before.size(); ++index) {
      same = same && bound.kinds[index].sequences == before[index];
    }
    if (same) break;
  }
  if (request.vary_schedule) vary_schedules(alone, found, bound);
  return bound;
}

std::vector<WithoutKind> without_each_kind(const SearchRequest& request, const Strategy& strategy) {
  std::vector<WithoutKind> all;
  const auto devices = devices_by_kind(request);
  if (devices.size() < 2) return all;
  for (const auto& [kind, count] : devices) {
    all.push_back({.kind = kind});
  }
  for_each_in_parallel(static_cast<int>(all.size()), [&](int index) {
    SearchRequest rest = request;
    rest.keep = 1;
    rest.time_limit_s = request.time_limit_s / static_cast<double>(devices.size());
    rest.pins.kinds.clear();
    for (const auto& [other, count] : devices) {
      if (other != all[index].kind) rest.pins.kinds.insert(other);
    }
    try {
      Rate rate = best_rate(rest, strategy);
      all[index] = {all[index].kind, rate.tokens_per_second, rate.proven, std::move(rate.plan)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidPlan) throw;  // the pins ask for what is left out
    }
  });
  return all;
}

void take_faster(SearchResult& result, const std::vector<WithoutKind>& without,
                 const SearchRequest& request) {
  for (const WithoutKind& one : without) {
    const double best = result.best.empty() ? 0 : result.best.front().prediction.tokens_per_second;
    if (one.tokens_per_second <= best) continue;
    Candidate faster{.plan = one.plan,
                     .prediction = predict(one.plan, request.model, request.costs)};
    faster.plan.predicted_step_seconds = faster.prediction.step_seconds;
    result.best.insert(result.best.begin(), std::move(faster));
    if (result.best.size() > request.keep) result.best.pop_back();
  }
}

std::vector<LeftOut> left_out_of(const SearchResult& result, const SearchRequest& request) {
  const auto used = [](const Candidate& candidate) {
    std::map<std::string, int> devices;
    for (const std::string& kind : candidate.plan.kind_of_rank()) {
      ++devices[kind];
    }
    return devices;
  };
  std::map<std::string, int> best = used(result.best.front());
  std::vector<LeftOut> all;
  for (const auto& [kind, available] : devices_by_kind(request)) {
    if (best[kind] >= available) continue;
    LeftOut& one = all.emplace_back(LeftOut{kind, available - best[kind], available});
    for (const Candidate& other : result.best) {
      if (used(other)[kind] <= best[kind]) continue;
      one.step_seconds_with = other.prediction.step_seconds;
      break;
    }
  }
  return all;
}

std::string summary_of(const Plan& plan) {
  std::string line = plan.schedule + ";";
  for (std::size_t first = 0; first < plan.pipelines.size();) {
    const Pipeline& pipeline = plan.pipelines[first];
    const std::string stages = stages_text(pipeline);
    std::size_t next = first + 1;
    const auto alike = [&](const Pipeline& other) {
      return other.micro_batches == pipeline.micro_batches &&
             other.micro_batch_size == pipeline.micro_batch_size && stages_text(other) == stages;
    };
    while (next < plan.pipelines.size() && alike(plan.pipelines[next]))
      ++next;
    line += text(first == 0 ? " " : " | ", next - first == 1 ? "" : text(next - first, " of "),
                 pipeline.micro_batches, " x ", pipeline.micro_batch_size, ":", stages);
    first = next;
  }
  return line;
}

std::string binding_of(const Candidate& candidate) {
  const RankPrediction& rank = busiest(candidate.prediction);
  const RankPosition at = position_of(candidate.plan, rank.rank);
  const Stage& stage = candidate.plan.pipelines[at.pipeline].stages[at.stage];
  const double step = candidate.prediction.step_seconds;
  const bool by_compute = rank.compute_seconds >= rank.transfer_seconds;
  return text(by_compute ? "compute" : "messages", " of pipeline ", at.pipeline, " stage ",
              at.stage, " (rank ", rank.rank, ", ", rank.kind, ", layers ",
              range_text(stage, stage), "): ", percent(rank.compute_seconds / step),
              " of the step forward and backward, ", percent(rank.transfer_seconds / step),
              " messages, ", percent(rank.update_seconds / step), " optimizer, ",
              percent(rank.bubble_seconds / step), " waiting");
}

double balance_of(const Prediction& prediction) {
  double least = prediction.ranks.front().compute_seconds;
  double most = 0;
  for (const RankPrediction& rank : prediction.ranks) {
    least = std::min(least, rank.compute_seconds);
    most = std::max(most, rank.compute_seconds);
  }
  return most > 0 ? least / most : 1;
}

std::string loss_of(const Candidate& runner_up, const Candidate& winner) {
  const Prediction& a = runner_up.prediction;
  const Prediction& b = winner.prediction;
  const RankPrediction& busy = busiest(a);
  const RankPrediction& best = busiest(b);
  const auto more = [](double here, double there) { return (here - there) * 1e3; };
  std::string where = "waiting";
  double most = more(busy.bubble_seconds, best.bubble_seconds);
  const auto compare = [&](const char* what, double here, double there) {
    if (more(here, there) <= most) return;
    most = more(here, there);
    where = what;
  };
  compare("compute", busy.compute_seconds, best.compute_seconds);
  compare("messages", busy.transfer_seconds, best.transfer_seconds);
  compare("optimizer", busy.update_seconds, best.update_seconds);
  return text("+", percent(a.step_seconds / b.step_seconds - 1), ", mostly ", where,
              " of its busiest rank, ", busy.rank, " (", busy.kind, ")");
}

}  // namespace hethub
