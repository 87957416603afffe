#include "hethub/search/stage_menu.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "hethub/base/error.h"
#include "hethub/base/split.h"
#include "hethub/search/space.h"
#include "hethub/search/widths.h"

namespace hethub {

// One stage whose cost is asked for.
struct StageMenu::Cell {
  int size = 0;
  int choice = 0;
  LayerRange layers = {};
  bool relaxed = false;
  double usable_bytes = 0;
  double message = 0;   // seconds at each of its ends
  double exchange = 0;  // seconds of a byte
};

namespace {

TensorParallel group_of(int width) {
  return {.width = width, .layout = width > 1 ? TensorLayout::kSplit : TensorLayout::kWhole};
}

}  // namespace

StageMenu::StageMenu(const SearchRequest& request, SearchCache& cache)
    : request_(request), cache_(cache) {
  list_sizes();
  list_kinds();
  list_choices();
}

void StageMenu::list_kinds() {
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
}

// Costs that were measured need not cover the ops of tensor-parallel groups; a whole stage's must
// be known, if no other width was asked for.
bool StageMenu::is_priced(const std::string& kind, int width) {
  try {
    cache_.pricer.stage(kind, sizes_.front(), {0, request_.model.layers}, Recompute::kNone,
                        group_of(width));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidConfig || width == 1) throw;
    if (!request_.pins.tensor_parallel) return false;
    ErrorParts parts = error.parts();
    parts.what = text("--pin tensor_parallel=", width, ": ", parts.what);
    parts.fix =
        "state the kind's peak_tflops and memory_gb_per_s in the cluster file, from which "
        "what was not measured is priced, or let go of the pin";
    throw Error(error.code(), std::move(parts));
  }
}

void StageMenu::list_choices() {
  widths_.resize(kinds_.size());
  for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
    for (const int width : widths_of(request_, kinds_[kind])) {
      if (!is_priced(kinds_[kind], width)) continue;
      widths_[kind].push_back(width);
      for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
        if (request_.pins.recompute && *request_.pins.recompute != recompute) continue;
        choices_.push_back({kind, width});
        recompute_.push_back(recompute);
      }
    }
  }
  if (!choices_.empty()) return;
  ErrorParts parts =
      width_fault(request_, kinds_.front(), request_.pins.tensor_parallel.value_or(1))
          .value_or(ErrorParts{});
  parts.what = text("--pin tensor_parallel, on ", kinds_.front());
  parts.fix += ", or let go of the pin";
  throw Error(ErrorCode::kInvalidPlan, std::move(parts));
}

// A plan takes the global batch exactly: sizes that divide it, and each other.
void StageMenu::list_sizes() {
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

// Other plans may mix sizes in other ways.
std::vector<int> StageMenu::all_sizes() const {
  if (request_.pins.micro_batch_size) return {*request_.pins.micro_batch_size};
  std::vector<int> sizes = request_.micro_batch_sizes;
  std::erase_if(sizes, [&](int size) { return size < 1 || size > request_.global_batch; });
  return sizes;
}

// Copies that keep a stage busy for one message each way, between neighbours of its kind.
double StageMenu::message_seconds(int kind, int size) {
  const double bytes = cache_.pricer.boundary_bytes(kinds_[kind], size);
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
// take what the whole would over the slowest of its links.
double StageMenu::exchange_seconds(int kind, int other, double bytes) const {
  const int from = ranks_[kind].front();
  const int to = ranks_[other].back();
  if (from == to) return 0;
  return bytes / request_.costs.transfer_rates(from, to).wire.bytes_per_s;
}

const std::string& StageMenu::schedule() const {
  return request_.pins.schedule.empty() ? request_.schedules.front() : request_.pins.schedule;
}

// From how many stages before the end on a stage has room for `lanes` micro-batches alive. Where
// pipelines are that deep there are only so many, and the largest has at least the even share.
int StageMenu::deepest(double lanes, int size) const {
  const std::int64_t devices = std::accumulate(
      ranks_.begin(), ranks_.end(), std::int64_t{0},
      [](std::int64_t sum, const std::vector<int>& ranks) { return sum + std::ssize(ranks); });
  const ScheduleEntry& entry = schedule_entry(schedule());
  int stages = 0;
  for (; stages < request_.model.layers; ++stages) {
    const std::int64_t pipelines = std::max<std::int64_t>(1, devices / (stages + 1));
    const std::int64_t at_once = size * pipelines;
    const std::int64_t share = (request_.global_batch + at_once - 1) / at_once;
    if (entry.most_alive({stages + 1, static_cast<int>(share)}) > lanes) break;
  }
  return stages;
}

PipelineTables StageMenu::tables(const std::vector<double>& usable_bytes, bool relaxed) {
  PipelineTables tables{.kinds = kinds_,
                        .choices = choices_,
                        .sizes = relaxed ? all_sizes() : sizes_,
                        .layers = request_.model.layers,
                        .global_batch = request_.global_batch,
                        .fills = !relaxed};
  constexpr double kBytes = 1e8;
  for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
    tables.available.push_back(static_cast<int>(ranks_[kind].size()));
    const double own = exchange_seconds(kind, kind, kBytes);
    double slowest = own;
    for (int other = 0; other < std::ssize(kinds_); ++other) {
      slowest = std::max(slowest, exchange_seconds(kind, other, kBytes));
    }
    tables.mixed_exchange.push_back(own > 0 ? slowest / own : 1);
  }
  for (const int size : tables.sizes) {
    for (int kind = 0; !relaxed && kind < std::ssize(kinds_); ++kind) {
      const double bytes = cache_.pricer.boundary_bytes(kinds_[kind], size);
      for (const std::vector<int>& next : ranks_) {
        const int from = ranks_[kind].front();
        const double wire =
            from == next.back()
                ? 0
                : request_.costs.transfer_cost(from, next.back(), bytes).wire_seconds;
        tables.wire.push_back(wire);
      }
    }
  }
  const int layers = tables.layers;
  tables.costs.assign(tables.sizes.size() * choices_.size() * layers * (layers + 1), {});
  const std::vector<std::int64_t>& windows = request_.model.windows;
  const bool alike = std::all_of(windows.begin(), windows.end(),
                                 [&](std::int64_t one) { return one == windows.front(); });
  for (int size = 0; size < std::ssize(tables.sizes); ++size) {
    for (int choice = 0; choice < std::ssize(choices_); ++choice) {
      const int kind = choices_[choice].kind;
      Cell cell{.size = tables.sizes[size],
                .choice = choice,
                .relaxed = relaxed,
                .usable_bytes = usable_bytes[kind],
                .message = relaxed ? 0 : message_seconds(kind, tables.sizes[size]),
                .exchange = exchange_seconds(kind, kind, kBytes) / kBytes};
      for (int begin = 0; begin < layers; ++begin) {
        for (int end = begin + 1; end <= layers; ++end) {
          StageCost& cost = tables.costs[tables.index_of(size, choice, begin, end)];
          if (alike && begin > 1 && end < layers) {
            cost = tables.cost(size, choice, begin - 1, end - 1);
            continue;
          }
          cell.layers = {begin, end};
          cost = cost_of(cell);
        }
      }
    }
  }
  return tables;
}

StageCost StageMenu::cost_of(const Cell& cell) {
  const StageChoice& choice = choices_[cell.choice];
  const Recompute recompute = recompute_[cell.choice];
  const bool last = cell.layers.end == request_.model.layers;
  const StageNumbers numbers = cache_.pricer.stage(kinds_[choice.kind], cell.size, cell.layers,
                                                   recompute, group_of(choice.devices));
  StageCost cost;
  cost.seconds = numbers.phase_seconds[0] + numbers.phase_seconds[1] +
                 cell.message * ((cell.layers.begin > 0 ? 1 : 0) + (last ? 0 : 1));
  const StageBytes bytes =
      cache_.stage_memory.of(cell.layers, cell.size, recompute, choice.devices);
  if (cell.relaxed) {
    const bool fits = static_cast<double>(bytes.held) <= cell.usable_bytes;
    cost.deepest = fits ? request_.model.layers : 0;
    return cost;
  }
  cost.exchange = cell.exchange * static_cast<double>(bytes.held) / 2;  // the gradients' half
  const double left = cell.usable_bytes - static_cast<double>(bytes.arena(1, 0));
  const auto lane = static_cast<double>(std::max<std::int64_t>(1, bytes.lane));
  cost.deepest = deepest(left / lane, cell.size);
  return cost;
}

TensorLayout StageMenu::layout_of(const std::vector<ChosenPipeline>& pipelines) const {
  for (const ChosenPipeline& one : pipelines) {
    for (const PickedStage& stage : one.column.stages) {
      if (choices_[stage.choice].devices > 1) return TensorLayout::kSplit;
    }
  }
  return TensorLayout::kWhole;
}

double StageMenu::compute_seconds(int size, const PickedStage& stage, TensorLayout layout) {
  const StageChoice& choice = choices_[stage.choice];
  const StageNumbers numbers =
      cache_.pricer.stage(kinds_[choice.kind], sizes_[size], {stage.begin, stage.end},
                          recompute_[stage.choice], {.width = choice.devices, .layout = layout});
  return numbers.phase_seconds[0] + numbers.phase_seconds[1];
}

Plan StageMenu::plan_of(const std::vector<ChosenPipeline>& pipelines) const {
  Plan plan{.model = request_.model_path,
            .sequence_length = request_.sequence_length,
            .global_batch = request_.global_batch,
            .dtype = std::string(name_of(request_.dtype)),
            .schedule = schedule(),
            .sequence_parallel = request_.sequence_parallel};
  for (const ChosenPipeline& one : pipelines) {
    Pipeline& pipeline = plan.pipelines.emplace_back();
    pipeline.micro_batch_size = sizes_[one.column.size];
    pipeline.micro_batches = static_cast<int>(one.micro_batches);
    for (const PickedStage& picked : one.column.stages) {
      const LayerRange layers = {picked.begin, picked.end};
      Stage& stage = pipeline.stages.emplace_back();
      stage.kind = kinds_[choices_[picked.choice].kind];
      stage.tensor_parallel = choices_[picked.choice].devices;
      stage.layers = {layers};
      if (recompute_[picked.choice] == Recompute::kFull) {
        stage.recompute = {{Recompute::kFull, layers}};
      }
    }
  }
  // The widest groups first: those after them find whole nodes or what is left of one.
  std::vector<std::size_t> next(kinds_.size(), 0);
  std::set<int, std::greater<>> widths;
  for (const StageChoice& choice : choices_) {
    widths.insert(choice.devices);
  }
  for (const int width : widths) {
    for (std::size_t index = 0; index < pipelines.size(); ++index) {
      const std::vector<PickedStage>& picked = pipelines[index].column.stages;
      for (std::size_t stage = 0; stage < picked.size(); ++stage) {
        const StageChoice& choice = choices_[picked[stage].choice];
        if (choice.devices != width) continue;
        const auto first = ranks_[choice.kind].begin() + static_cast<int>(next[choice.kind]);
        plan.pipelines[index].stages[stage].ranks.assign(first, first + width);
        next[choice.kind] += width;
      }
    }
  }
  close_rank_gaps(plan);
  return plan;
}

ChosenPipeline StageMenu::longest() const {
  std::vector<int> stage_choices;
  for (int choice = 0; choice < std::ssize(choices_); ++choice) {
    const bool last = choice + 1 == std::ssize(choices_);
    if (!last && choices_[choice + 1].kind == choices_[choice].kind) continue;  // that is smaller
    stage_choices.insert(stage_choices.end(),
                         ranks_[choices_[choice].kind].size() / choices_[choice].devices, choice);
  }
  const int layers = request_.model.layers;
  if (std::ssize(stage_choices) > layers) stage_choices.resize(layers);
  ChosenPipeline one{.micro_batches = request_.global_batch / sizes_.front()};
  for (std::size_t stage = 0; stage < stage_choices.size(); ++stage) {
    const IndexRange part = part_of(layers, std::ssize(stage_choices), static_cast<int>(stage));
    one.column.stages.push_back(
        {stage_choices[stage], static_cast<int>(part.begin), static_cast<int>(part.end)});
  }
  return one;
}

// Of all devices of a group together, for one sequence.
double StageMenu::least_seconds(int kind, int layer) {
  const Recompute again = request_.pins.recompute.value_or(Recompute::kNone);
  double seconds = std::numeric_limits<double>::infinity();
  for (const int width : widths_[kind]) {
    for (const int size : all_sizes()) {
      const StageNumbers one =
          cache_.pricer.stage(kinds_[kind], size, {layer, layer + 1}, again, group_of(width));
      const double work = one.phase_seconds[0] + one.phase_seconds[1] -
                          2 * request_.costs.action_seconds(kinds_[kind]);
      seconds = std::min(seconds, std::max(0.0, work) * width / size);
    }
  }
  return seconds;
}

double StageMenu::work_bound() {
  const int layers = request_.model.layers;
  std::vector<double> prices;
  double rate = 0;
  for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
    prices.push_back(1 / std::max(least_seconds(kind, layers / 2), 1e-30));
    rate += prices.back() * static_cast<double>(ranks_[kind].size());
  }
  double worth = 0;
  for (int layer = 0; layer < layers; ++layer) {
    double cheapest = std::numeric_limits<double>::infinity();
    for (int kind = 0; kind < std::ssize(kinds_); ++kind) {
      cheapest = std::min(cheapest, prices[kind] * least_seconds(kind, layer));
    }
    worth += cheapest;
  }
  return static_cast<double>(request_.global_batch) * worth / rate;
}

}  // namespace hethub
