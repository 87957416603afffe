#include "hethub/search/stage_pricer.h"

#include <algorithm>

#include "hethub/model/decoder.h"
#include "hethub/plan/each_rank.h"
#include "hethub/plan/optimizer_ops.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/alike_pipelines.h"
#include "hethub/predict/group_price.h"

namespace hethub {
namespace {

// That an op of the optimizer works on: it has no other size.
std::int64_t elements_of(const Op& op) {
  if (const auto* sum = std::get_if<SumSquares>(&op.body)) return sum->count;
  if (const auto* update = std::get_if<AdamW>(&op.body)) return update->count;
  return std::get<Fill>(op.body).count;
}

bool splits_backward(const ScheduleEntry& entry) {
  return !entry.virtual_stages && entry.make({}).splits_backward();
}

}  // namespace

const std::vector<std::string>& priced_schedules() {
  static const std::vector<std::string> kPriced = [] {
    std::vector<std::string> names;
    for (const ScheduleEntry& entry : all_schedules()) {
      if (!entry.virtual_stages && !splits_backward(entry)) names.emplace_back(entry.name);
    }
    return names;
  }();
  return kPriced;
}

PhaseSeconds StagePricer::phase_seconds(const std::string& kind, const Program& program,
                                        Phase phase, const GroupPrice& group) const {
  const LayerCosts costs =
      price_by_layer(costs_, kind, program, phase, programs_.distinct().layers, group);
  LayerParts<double> parts{.before = costs.before.seconds, .after = costs.after.seconds};
  for (const int sort : programs_.layer_sort()) {
    parts.layers.push_back(costs.layers[sort].seconds);
  }
  return PhaseSeconds(parts);
}

double StagePricer::copies_of(const std::string& kind, const Slice& slice,
                              const TensorParallel& parallel) const {
  const BatchShape shape{.sequences = 1, .sequence_length = 1, .dtype = programs_.form().dtype};
  const Program program = build_forward(programs_.distinct(), slice, shape, parallel);
  double sum = 0;
  for (const int copy : program.values_of(ValueRole::kCopy)) {
    const TensorSpec& spec = program.values[copy].spec;
    sum += costs_.op_cost(kind, {"copy", spec.dtype, Convert{spec.elements()}}).seconds;
  }
  return sum;
}

// Of a stage with embedding and head whose matrices are one, that is copied twice.
PhaseSeconds StagePricer::copy_seconds(const std::string& kind,
                                       const TensorParallel& parallel) const {
  LayerParts<double> parts{.layers = std::vector<double>(programs_.layer_sort().size())};
  if (programs_.form().dtype == DType::kF32) return PhaseSeconds(parts);
  const int last = programs_.distinct().layers - 1;
  std::vector<double> sorts;
  for (int sort = 0; sort <= last; ++sort) {
    sorts.push_back(copies_of(kind, {sort, sort + 1, false, false}, parallel));
  }
  for (std::size_t layer = 0; layer < parts.layers.size(); ++layer) {
    parts.layers[layer] = sorts[programs_.layer_sort()[layer]];
  }
  parts.before = copies_of(kind, {0, 1, true, false}, parallel) - sorts.front();
  parts.after = copies_of(kind, {last, last + 1, false, true}, parallel) - sorts.back();
  return PhaseSeconds(parts);
}

// Neighbours on one node, where the kind has them.
std::vector<int> StagePricer::devices_of_group(const std::string& kind, int width) const {
  const std::vector<RankPlace>& places = costs_.ranks();
  std::vector<int> group;
  for (std::size_t rank = 0; rank < places.size() && std::ssize(group) < width; ++rank) {
    if (places[rank].kind != kind) continue;
    if (!group.empty() && places[group.front()].node != places[rank].node) group.clear();
    group.push_back(static_cast<int>(rank));
  }
  return group;
}

const StagePricer::Table& StagePricer::table(const std::string& kind, int sequences,
                                             const TensorParallel& parallel, bool split) {
  const std::lock_guard lock(mutex_);
  const auto key = std::tuple(kind, sequences, parallel.width, parallel.layout, split);
  const auto known = tables_.find(key);
  if (known != tables_.end()) return known->second;
  Table table;  // kept once all of it is known: an op may have no cost
  GroupPricer pricer(costs_, {devices_of_group(kind, parallel.width)});
  const GroupPrice group = [&](const GroupStart& op, DType dtype) {
    return pricer.seconds(op, dtype);
  };
  const StagePrograms::ByRecompute& made = programs_.of(sequences, parallel, split);
  table.forward = phase_seconds(kind, made.front(), Phase::kForward, group);
  for (std::size_t recompute = 0; recompute < made.size(); ++recompute) {
    table.backward[recompute] = phase_seconds(kind, made[recompute], Phase::kBackward, group);
    if (!split) continue;
    table.weights[recompute] = phase_seconds(kind, made[recompute], Phase::kBackwardWeight, group);
  }
  table.copies = copy_seconds(kind, parallel);
  const BatchShape shape{.sequences = sequences,
                         .sequence_length = programs_.form().sequence_length,
                         .dtype = programs_.form().dtype};
  table.sent_bytes = static_cast<double>(sent_spec(programs_.distinct(), shape).bytes());
  return tables_.emplace(key, std::move(table)).first->second;
}

StageNumbers StagePricer::stage(const std::string& kind, int sequences, LayerRange range,
                                const std::vector<RecomputeRange>& recompute,
                                const TensorParallel& parallel, bool split) {
  const Table& costs = table(kind, sequences, parallel, split);
  const Slice slice = slice_of(model_, range);
  const auto sum = [&](const std::array<PhaseSeconds, 3>& phase) {
    double seconds = costs_.action_seconds(kind) + phase[0].of(slice);
    for (const RecomputeRange& again : recompute) {
      const int begin = std::max(range.begin, again.layers.begin);
      const int end = std::min(range.end, again.layers.end);
      if (begin >= end) continue;
      seconds += phase[static_cast<std::size_t>(again.kind)].layers(begin, end) -
                 phase[0].layers(begin, end);
    }
    return seconds;
  };
  StageNumbers numbers{.sent_bytes = slice.head ? 0 : costs.sent_bytes};
  numbers.phase_seconds[static_cast<std::size_t>(Phase::kForward)] =
      costs_.action_seconds(kind) + costs.forward.of(slice);
  numbers.phase_seconds[static_cast<std::size_t>(Phase::kBackward)] = sum(costs.backward);
  if (split) {
    numbers.phase_seconds[static_cast<std::size_t>(Phase::kBackwardWeight)] = sum(costs.weights);
  }
  return numbers;
}

double StagePricer::seconds(const std::string& kind, const Op& op) {
  const std::lock_guard lock(mutex_);
  const auto key = std::tuple(kind, op.body.index(), elements_of(op));
  const auto known = ops_.find(key);
  if (known != ops_.end()) return known->second;
  return ops_.emplace(key, costs_.op_cost(kind, op).seconds).first->second;
}

void StagePricer::add_optimizer(const Plan& plan, const std::vector<Segment>& segments,
                                StepNumbers& numbers) {
  for (auto* list : {&numbers.check_seconds, &numbers.norm_seconds, &numbers.update_seconds,
                     &numbers.copy_seconds}) {
    list->assign(static_cast<std::size_t>(plan.world_size()), 0);
  }
  const TensorLayout layout = layout_of(plan);
  const bool stepwise = plan.world_size() <= kMostStepwise;
  const std::vector<int> first =
      stepwise ? std::vector<int>{}
               : first_alike(plan, costs_.ranks(), cluster_ranks_of(plan, costs_.ranks()));
  for_each_rank(plan, [&](const RankPosition& at, int rank) {
    const int stands_for = stepwise ? at.pipeline : first[at.pipeline];
    if (stands_for != at.pipeline) {
      const int like = plan.pipelines[stands_for].stages[at.stage].ranks[at.place];
      numbers.check_seconds[rank] = numbers.check_seconds[like];
      numbers.norm_seconds[rank] = numbers.norm_seconds[like];
      numbers.update_seconds[rank] = numbers.update_seconds[like];
      numbers.copy_seconds[rank] = numbers.copy_seconds[like];
      return;
    }
    const std::string& kind = plan.pipelines[at.pipeline].stages[at.stage].kind;
    const OptimizerOps ops = optimizer_ops(segments, holdings_of(segments, rank));
    const auto sum = [&](const std::vector<Op>& list) {
      double all = 0;
      for (const Op& op : list) {
        all += seconds(kind, op);
      }
      return all;
    };
    numbers.check_seconds[rank] = sum(ops.checks);
    numbers.norm_seconds[rank] = sum(ops.norms);
    numbers.update_seconds[rank] = sum(ops.update());
    if (programs_.form().dtype == DType::kF32) return;
    const Stage& one = plan.pipelines[at.pipeline].stages[at.stage];
    const auto own = static_cast<int>(sequences_of(plan, at).size());
    const TensorParallel parallel{.width = one.tensor_parallel, .layout = layout};
    const PhaseSeconds& copies = table(kind, own, parallel).copies;
    for (const LayerRange& range : one.layers) {
      numbers.copy_seconds[rank] += copies.of(slice_of(model_, range));
    }
  });
}

void StagePricer::add_stages(const Plan& plan, StepNumbers& numbers) {
  const TensorLayout layout = layout_of(plan);
  const bool split = splits_backward(schedule_entry(plan.schedule));
  for (int number = 0; number < std::ssize(plan.pipelines); ++number) {
    const Pipeline& pipeline = plan.pipelines[number];
    const auto count = static_cast<int>(pipeline.stages.size());
    const int positions = count * static_cast<int>(pipeline.stages.front().layers.size());
    std::vector<StageNumbers>& stages = numbers.stages.emplace_back();
    for (int position = 0; position < positions; ++position) {
      const int index = stage_of_position(position, count);
      const Stage& one = pipeline.stages[index];
      const auto own = static_cast<int>(sequences_of(plan, {number, index, 0}).size());
      stages.push_back(stage(one.kind, own, one.layers[range_of_position(position, count)],
                             one.recompute, {.width = one.tensor_parallel, .layout = layout},
                             split));
      stages.back().sent_bytes *= static_cast<double>(pipeline.micro_batch_size) / own;
    }
  }
}

double StagePricer::step_seconds(const Plan& plan, const std::vector<Segment>& segments,
                                 const StepNumbers& numbers) const {
  StepBuilder builder(costs_);
  write_step(builder, plan, segments, numbers, cluster_ranks_of(plan, costs_.ranks()),
             Labels::kNone);
  return simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
}

StepNumbers StagePricer::numbers(const Plan& plan, const std::vector<Segment>& segments) {
  StepNumbers numbers;
  add_stages(plan, numbers);
  add_optimizer(plan, segments, numbers);
  return numbers;
}

}  // namespace hethub
