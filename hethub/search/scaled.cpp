#include "hethub/search/scaled.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/base/split.h"
#include "hethub/search/even_replicas.h"
#include "hethub/search/replica_search.h"
#include "hethub/search/space.h"

namespace hethub {

ScaledSearch::ScaledSearch(const SearchRequest& request)
    : request_(request),
      pricer_(request.model, request.costs, request.sequence_length),
      memory_(request.model, request.costs),
      stage_memory_(request.model, request.sequence_length),
      schedule_(request.allowed_schedules().front()),
      begin_s_(seconds_now()) {
  list_choices();
  list_sizes();
}

double ScaledSearch::seconds_left() const {
  return begin_s_ + request_.time_limit_s - seconds_now();
}

void ScaledSearch::list_choices() {
  std::map<std::string, int> positions;
  const std::vector<RankPlace>& places = request_.costs.ranks();
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::string& kind = places[rank].kind;
    if (!request_.pins.allow(kind)) continue;
    const auto [place, is_new] = positions.try_emplace(kind, static_cast<int>(kinds_.size()));
    if (is_new) {
      kinds_.push_back(kind);
      ranks_.emplace_back();
    }
    ranks_[place->second].push_back(static_cast<int>(rank));
  }
  for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      if (request_.pins.recompute && *request_.pins.recompute != recompute) continue;
      choices_.push_back({kind, 1});
      recompute_.push_back(recompute);
    }
    const std::string& name = kinds_[kind];
    usable_bytes_.push_back(
        static_cast<double>(kind_named(request_.costs.cluster(), name).memory_bytes -
                            request_.costs.fixed_memory_bytes(name)));
  }
}

// A plan takes the global batch exactly: sizes that divide it, and each other.
void ScaledSearch::list_sizes() {
  std::vector<int> wanted = request_.micro_batch_sizes;
  if (request_.pins.micro_batch_size) wanted = {*request_.pins.micro_batch_size};
  std::sort(wanted.begin(), wanted.end());
  for (const int size : wanted) {
    const bool divides = size >= 1 && request_.global_batch % size == 0;
    if (divides && (sizes_.empty() || size % sizes_.back() == 0)) sizes_.push_back(size);
  }
  if (sizes_.empty()) {
    throw Error(ErrorCode::kInvalidPlan, {.what = "--global-batch",
                                          .found = text(request_.global_batch),
                                          .expected = "a multiple of a micro-batch size",
                                          .fix = "change --global-batch"});
  }
}

// Copies that keep a stage busy for one message each way, between neighbours of its kind.
double ScaledSearch::message_seconds(int kind, int size) {
  const double bytes = pricer_.boundary_bytes(kinds_[kind], size);
  const int from = ranks_[kind].front();
  int to = ranks_[kind].back() == from ? -1 : ranks_[kind][1];
  for (std::size_t other = 0; to < 0 && other < ranks_.size(); ++other) {
    if (static_cast<int>(other) != kind) to = ranks_[other].front();
  }
  if (to < 0) return 0;
  const TransferCost on = request_.costs.transfer_cost(from, to, bytes);
  const TransferCost back = request_.costs.transfer_cost(to, from, bytes);
  return on.download_seconds + back.upload_seconds + on.wire_seconds / 2 + back.wire_seconds / 2;
}

// A round of a ring over very many replicas moves next to nothing, so that all of them together
// take what the whole would over the slowest link between two of the ranks at either end of a kind.
double ScaledSearch::exchange_seconds(double bytes) const {
  double slowest = 0;
  for (const std::vector<int>& ranks : ranks_) {
    for (const std::vector<int>& others : ranks_) {
      if (ranks.front() == others.back()) continue;
      const TransferRates rates = request_.costs.transfer_rates(ranks.front(), others.back());
      slowest = std::max(slowest, bytes / rates.wire.bytes_per_s);
    }
  }
  return slowest;
}

// From how many stages before the end on a stage has room for `lanes` micro-batches alive. Where
// pipelines are that deep there are only so many, and the largest has at least the even share.
int ScaledSearch::deepest(double lanes, int size) const {
  const std::int64_t devices = std::accumulate(
      ranks_.begin(), ranks_.end(), std::int64_t{0},
      [](std::int64_t sum, const std::vector<int>& ranks) { return sum + std::ssize(ranks); });
  const auto alive = [&](int stages) {
    const std::int64_t pipelines = std::max<std::int64_t>(1, devices / stages);
    const std::int64_t at_once = size * pipelines;
    const std::int64_t share = (request_.global_batch + at_once - 1) / at_once;
    return schedule_entry(schedule_).most_alive({stages, static_cast<int>(share)});
  };
  int stages = 0;
  while (stages < request_.model.layers && alive(stages + 1) <= lanes)
    ++stages;
  return stages;
}

PipelineTables ScaledSearch::tables(bool relaxed) {
  PipelineTables tables{.kinds = kinds_,
                        .choices = choices_,
                        .sizes = sizes_,
                        .layers = request_.model.layers,
                        .global_batch = request_.global_batch,
                        .fills = !relaxed};
  if (relaxed && !request_.pins.micro_batch_size) {  // other plans may mix sizes in other ways
    tables.sizes = request_.micro_batch_sizes;
    std::erase_if(tables.sizes, [&](int size) { return size < 1 || size > request_.global_batch; });
  }
  for (const std::vector<int>& ranks : ranks_) {
    tables.available.push_back(static_cast<int>(ranks.size()));
  }
  tables.costs.assign(
      tables.sizes.size() * tables.choices.size() * tables.layers * (tables.layers + 1), {});
  for (int size = 0; size < std::ssize(tables.sizes); ++size) {
    for (int choice = 0; choice < std::ssize(choices_); ++choice) {
      fill(tables, size, choice, relaxed);
    }
  }
  return tables;
}

void ScaledSearch::fill(PipelineTables& tables, int size, int choice, bool relaxed) {
  const int kind = choices_[choice].kind;
  const double message = relaxed ? 0 : message_seconds(kind, tables.sizes[size]);
  const double usable = usable_bytes_[kind];
  constexpr double kBytes = 1e8;
  const double exchange = exchange_seconds(kBytes) / kBytes;
  for (int begin = 0; begin < tables.layers; ++begin) {
    for (int end = begin + 1; end <= tables.layers; ++end) {
      const bool last = end == tables.layers;
      const StageNumbers numbers =
          pricer_.stage(kinds_[kind], tables.sizes[size], {begin, end}, recompute_[choice]);
      StageCost& cost = tables.costs[tables.index_of(size, choice, begin, end)];
      cost.seconds = numbers.phase_seconds[0] + numbers.phase_seconds[1] +
                     message * ((begin > 0 ? 1 : 0) + (last ? 0 : 1));
      const StageBytes bytes =
          stage_memory_.of({begin, end}, tables.sizes[size], recompute_[choice]);
      if (relaxed) {
        cost.deepest = static_cast<double>(bytes.held) <= usable ? tables.layers : 0;
        continue;
      }
      cost.exchange = exchange * static_cast<double>(bytes.held) / 2;  // the gradients' half
      const double left = usable - static_cast<double>(bytes.arena(1, 0));
      const auto lane = static_cast<double>(std::max<std::int64_t>(1, bytes.lane));
      cost.deepest = deepest(left / lane, tables.sizes[size]);
    }
  }
}

Plan ScaledSearch::plan_of(const std::vector<ChosenPipeline>& pipelines) const {
  Plan plan{.model = request_.model_path,
            .sequence_length = request_.sequence_length,
            .global_batch = request_.global_batch,
            .schedule = schedule_};
  std::vector<std::size_t> next(kinds_.size(), 0);
  for (const ChosenPipeline& one : pipelines) {
    Pipeline& pipeline = plan.pipelines.emplace_back();
    pipeline.micro_batch_size = sizes_[one.column.size];
    pipeline.micro_batches = static_cast<int>(one.micro_batches);
    for (const PickedStage& picked : one.column.stages) {
      const int kind = choices_[picked.choice].kind;
      const int rank = ranks_[kind][next[kind]++];
      const LayerRange layers = {picked.begin, picked.end};
      Stage& stage = pipeline.stages.emplace_back();
      stage.kind = kinds_[kind];
      stage.ranks = {rank};
      stage.layers = {layers};
      if (recompute_[picked.choice] == Recompute::kFull) {
        stage.recompute = {{Recompute::kFull, layers}};
      }
    }
  }
  close_rank_gaps(plan);
  return plan;
}

// Whether the plan fits. If not, its kinds are taken to have less by what it lacks.
bool ScaledSearch::fit(const Plan& plan) {
  const std::vector<MemoryFault> faults =
      memory_.faults_of(plan, segments_of(plan, request_.model));
  std::map<std::string, std::int64_t> most;
  for (const MemoryFault& fault : faults) {
    most[fault.kind] = std::max(most[fault.kind], fault.bytes_short);
    if (!result_.nearest || result_.nearest->bytes_short > fault.bytes_short) {
      result_.nearest = {plan, fault.rank, fault.kind, fault.bytes_short};
    }
  }
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const auto found = most.find(kinds_[kind]);
    if (found != most.end()) usable_bytes_[kind] -= 1.02 * static_cast<double>(found->second);
  }
  result_.too_big += faults.empty() ? 0 : 1;
  return faults.empty();
}

// Chooses pipelines, at most so many, of all kinds (-1) or one, and simulates them. Returns their
// number, or 0 if none fits.
std::int64_t ScaledSearch::try_plan(int only_kind, std::int64_t most_replicas) {
  constexpr int kMostRounds = 8;
  const std::vector<double> usable = usable_bytes_;
  std::int64_t pipelines = 0;
  for (int round = 0; round < kMostRounds && pipelines == 0; ++round) {
    PipelineTables table = tables(false);
    for (int kind = 0; only_kind >= 0 && kind < std::ssize(kinds_); ++kind) {
      if (kind != only_kind) table.available[kind] = 0;
    }
    const ReplicaResult found = search_replicas(
        table, {.seconds = std::max(0.05, seconds_left() / 4), .most_replicas = most_replicas});
    if (found.pipelines.empty()) break;
    const Plan plan = plan_of(found.pipelines);
    if (!fit(plan)) continue;
    pipelines = std::ssize(found.pipelines);
    keep(plan);
  }
  usable_bytes_ = usable;
  return pipelines;
}

// The one that needs the least memory: a pipeline of all devices, or a layer for each of some.
void ScaledSearch::try_longest() {
  std::vector<int> stage_choices;
  for (int choice = 0; choice < std::ssize(choices_); ++choice) {
    const bool last = choice + 1 == std::ssize(choices_);
    if (!last && choices_[choice + 1].kind == choices_[choice].kind) continue;  // that recomputes
    stage_choices.insert(stage_choices.end(), ranks_[choices_[choice].kind].size(), choice);
  }
  const int layers = request_.model.layers;
  if (std::ssize(stage_choices) > layers) stage_choices.resize(layers);
  ChosenPipeline one{.micro_batches = request_.global_batch / sizes_.front()};
  for (std::size_t stage = 0; stage < stage_choices.size(); ++stage) {
    const IndexRange part = part_of(layers, std::ssize(stage_choices), static_cast<int>(stage));
    one.column.stages.push_back(
        {stage_choices[stage], static_cast<int>(part.begin), static_cast<int>(part.end)});
  }
  const Plan plan = plan_of({one});
  if (fit(plan)) keep(plan);
}

bool ScaledSearch::is_kept(const Plan& plan) const {
  return std::any_of(result_.best.begin(), result_.best.end(),
                     [&](const Candidate& one) { return one.plan.pipelines == plan.pipelines; });
}

void ScaledSearch::keep(const Plan& plan) {
  if (is_kept(plan)) return;
  const std::vector<Segment> segments = segments_of(plan, request_.model);
  StepBuilder builder(request_.costs);
  write_step(builder, plan, segments, pricer_.numbers(plan, segments),
             cluster_ranks_of(plan, request_.costs.ranks()), Labels::kNone);
  Candidate candidate{plan};
  candidate.plan.predicted_step_seconds =
      simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
  ++result_.simulated;
  const auto faster = [](const Candidate& a, const Candidate& b) {
    return a.plan.predicted_step_seconds < b.plan.predicted_step_seconds;
  };
  result_.best.insert(std::upper_bound(result_.best.begin(), result_.best.end(), candidate, faster),
                      candidate);
  if (result_.best.size() > request_.keep) result_.best.pop_back();
}

// The table knows no latency of an exchange, so fewer pipelines are tried, too. To simulate a plan
// takes up to eight times as long with twice the pipelines: it ends in time.
void ScaledSearch::try_more_and_more(int only_kind, double seconds) {
  const double end_s = seconds_now() + seconds;
  for (std::int64_t most = 1;; most *= 2) {
    const double before_s = seconds_now();
    if (try_plan(only_kind, most) < most) return;
    constexpr double kGrowth = 8;
    if (seconds_now() + kGrowth * (seconds_now() - before_s) > end_s) return;
  }
}

// Plans of even replicas: fast to find, whatever the number of devices.
void ScaledSearch::try_even() {
  constexpr int kMostRounds = 4;
  constexpr std::size_t kMostPlans = 8;
  const std::vector<double> usable = usable_bytes_;
  for (int round = 0; round < kMostRounds && result_.best.empty(); ++round) {
    const PipelineTables table = tables(false);
    for (const auto& pipelines : EvenReplicas(table).best(kMostPlans)) {
      const bool late = seconds_left() < request_.time_limit_s / 2;
      if (late && !result_.best.empty()) break;
      const Plan plan = plan_of(pipelines);
      if (!is_kept(plan) && fit(plan)) keep(plan);
    }
  }
  usable_bytes_ = usable;
}

// No plan is faster: with a price for each kind's time, all devices' time in a step is worth at
// least what every layer of every sequence costs where it is cheapest. Prices make kinds equally
// good for a layer, and the devices' time in a second worth 1.
double ScaledSearch::work_bound() {
  const int layers = request_.model.layers;
  const Recompute again = request_.pins.recompute.value_or(Recompute::kNone);
  std::vector<int> sizes = request_.micro_batch_sizes;
  if (request_.pins.micro_batch_size) sizes = {*request_.pins.micro_batch_size};
  std::erase_if(sizes, [&](int size) { return size < 1 || size > request_.global_batch; });
  const auto least = [&](std::size_t kind, int layer) {  // seconds of a sequence
    double seconds = std::numeric_limits<double>::infinity();
    for (const int size : sizes) {
      const StageNumbers one = pricer_.stage(kinds_[kind], size, {layer, layer + 1}, again);
      const double work = one.phase_seconds[0] + one.phase_seconds[1] -
                          2 * request_.costs.action_seconds(kinds_[kind]);
      seconds = std::min(seconds, std::max(0.0, work) / size);
    }
    return seconds;
  };
  std::vector<double> prices;
  double rate = 0;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    prices.push_back(1 / std::max(least(kind, layers / 2), 1e-30));
    rate += prices.back() * static_cast<double>(ranks_[kind].size());
  }
  double worth = 0;
  for (int layer = 0; layer < layers; ++layer) {
    double cheapest = std::numeric_limits<double>::infinity();
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      cheapest = std::min(cheapest, prices[kind] * least(kind, layer));
    }
    worth += cheapest;
  }
  return static_cast<double>(request_.global_batch) * worth / rate;
}

SearchResult ScaledSearch::run() {
  try_even();
  std::size_t devices = 0;
  for (const std::vector<int>& ranks : ranks_) {
    devices += ranks.size();
  }
  constexpr std::size_t kFew = 32;
  const bool thorough = devices <= kFew || result_.best.empty();
  if (thorough) try_more_and_more(-1, request_.time_limit_s / 2);
  for (int kind = 0; thorough && kinds_.size() > 1 && kind < std::ssize(kinds_); ++kind) {
    try_more_and_more(kind, request_.time_limit_s / 4 / static_cast<double>(kinds_.size()));
  }
  if (result_.best.empty()) try_longest();
  if (result_.best.empty()) return std::move(result_);
  for (Candidate& one : result_.best) {
    one.prediction = predict(one.plan, request_.model, request_.costs);
    one.plan.predicted_step_seconds = one.prediction.step_seconds;
  }
  result_.bound_seconds = work_bound();
  if (thorough) {
    const ReplicaResult relaxed =
        search_replicas(tables(true), {.seconds = std::max(0.05, seconds_left() / 2)});
    result_.bound_seconds = std::max(result_.bound_seconds, relaxed.bound_seconds);
  }
  const double step = result_.best.front().prediction.step_seconds;
  result_.bound_seconds = std::min(result_.bound_seconds, step);
  result_.complete = result_.bound_seconds >= 0.999 * step;
  return std::move(result_);
}

}  // namespace hethub
