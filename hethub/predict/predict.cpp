#include "hethub/predict/predict.h"

#include <algorithm>
#include <map>
#include <utility>

#include "hethub/base/error.h"
#include "hethub/plan/boundary.h"
#include "hethub/plan/each_rank.h"
#include "hethub/plan/segments.h"
#include "hethub/plan/validate.h"
#include "hethub/predict/group_price.h"
#include "hethub/predict/stage_account.h"

namespace hethub {
namespace {

ProgramCost price_ops(const CostModel& costs, std::string_view kind,
                      const std::vector<StepOp>& ops) {
  ProgramCost total;
  for (const StepOp& op : ops) {
    total.add(costs.op_cost(kind, op.op));
  }
  return total;
}

// What a rank plan's programs and ops cost; its compute is of one micro-batch.
struct RankNumbers {
  std::vector<StageNumbers> stages = {};  // by program
  ProgramCost compute = {};
  ProgramCost check = {};
  ProgramCost norm = {};
  ProgramCost update = {};
  ProgramCost copies = {};
  std::vector<BucketNumbers> buckets = {};
};

// When each bucket begins, and its check: the phase's instructions up to then.
std::vector<BucketNumbers> bucket_numbers(const RankPlan& rank, const CostModel& costs,
                                          const GroupPrice& group_seconds) {
  std::vector<BucketNumbers> all;
  for (std::size_t index = 0; index < rank.buckets.size(); ++index) {
    const BucketReady& ready = rank.buckets[index].ready;
    BucketNumbers& one = all.emplace_back();
    if (ready.program < 0) continue;
    const auto& list = rank.programs[ready.program].phase(ready.phase);
    const std::vector<Instruction> before(list.begin(), list.begin() + ready.instruction + 1);
    one = {.position = rank.positions[ready.program],
           .micro_batch = ready.micro_batch,
           .phase = ready.phase,
           .after_seconds = price(costs, rank.kind, before, group_seconds).seconds,
           .check_seconds = costs.op_cost(rank.kind, rank.check_ops[index].op).seconds};
  }
  return all;
}

// `groups`: the devices of its groups.
RankNumbers rank_numbers(const RankPlan& rank, const CostModel& costs,
                         const std::vector<std::vector<int>>& groups) {
  GroupPricer group(costs, groups);
  const auto group_seconds = [&](const GroupStart& op, DType dtype) {
    return group.seconds(op, dtype);
  };
  RankNumbers numbers{.check = price_ops(costs, rank.kind, rank.check_ops),
                      .norm = price_ops(costs, rank.kind, rank.norm_ops),
                      .update = price_ops(costs, rank.kind, rank.update_ops),
                      .copies = price_ops(costs, rank.kind, rank.copy_ops)};
  numbers.update.add(price_ops(costs, rank.kind, rank.zero_ops));
  numbers.buckets = bucket_numbers(rank, costs, group_seconds);
  for (const Program& program : rank.programs) {
    StageNumbers& stage = numbers.stages.emplace_back();
    for (int which = 0; which < kPhases; ++which) {
      const auto& instructions = program.phase(static_cast<Phase>(which));
      if (instructions.empty()) continue;
      const ProgramCost cost = price(costs, rank.kind, instructions, group_seconds);
      stage.phase_seconds[which] = cost.seconds + costs.action_seconds(rank.kind);
      numbers.compute.add(cost);
    }
    if (program.sent_activation < 0) continue;
    const Value& sent = program.values.at(program.sent_activation);
    stage.sent_bytes = static_cast<double>(sent.spec.bytes());
  }
  return numbers;
}

// The numbers of a plan's ranks, those of alike ranks whose groups have alike links once.
class PlanPricer {
 public:
  PlanPricer(const Plan& plan, const RankPlans& ranks, const CostModel& costs)
      : plan_(plan),
        ranks_(ranks),
        costs_(costs),
        devices_(cluster_ranks_of(plan, costs.ranks())) {}

  const RankNumbers& of(const RankPosition& at) {
    const int rank = plan_.pipelines[at.pipeline].stages[at.stage].ranks[at.place];
    const int index = ranks_.index_of_rank.at(rank);
    const std::vector<std::vector<int>> groups =
        devices_of_groups(plan_, at, ranks_.distinct[index], devices_);
    const auto [place, is_new] = known_.try_emplace({index, pattern_of(groups)});
    if (is_new) place->second = rank_numbers(ranks_.distinct[index], costs_, groups);
    return place->second;
  }

 private:
  // Which members share a node: they are of one kind, so that links are told apart by it alone.
  std::vector<int> pattern_of(const std::vector<std::vector<int>>& groups) const {
    std::map<int, int> nodes;
    std::vector<int> pattern;
    for (const std::vector<int>& group : groups) {
      for (const int device : group) {
        const int node = costs_.ranks()[device].node;
        pattern.push_back(nodes.try_emplace(node, static_cast<int>(nodes.size())).first->second);
      }
    }
    return pattern;
  }

  const Plan& plan_;
  const RankPlans& ranks_;
  const CostModel& costs_;
  std::vector<int> devices_;
  std::map<std::pair<int, std::vector<int>>, RankNumbers> known_ = {};
};

// Which of a rank's four accounts a bar belongs to.
double* account_of(RankPrediction& rank, const SimLabel& label) {
  if (label.action.is_transfer()) return &rank.transfer_seconds;
  return label.action.is_compute() ? &rank.compute_seconds : &rank.update_seconds;
}

// Time spent waiting for a message of the pipeline is bubble; that in a collective is not.
bool is_bubble(const SimTask& task, const SimLabel& label) {
  const bool in_collective = label.action.is_transfer() && !label.action.is_recv();
  return task.kind == SimTaskKind::kRecv && !in_collective;
}

// The device that does another's tasks for it: it itself, or one that is alike.
int doer_of(const SimStep& step, int device) {
  return step.like.empty() ? device : step.like[device];
}

void account(const StepBuilder& builder, const SimTimes& times, int device, RankPrediction& rank) {
  device = doer_of(builder.step(), device);
  const std::vector<SimTask>& tasks = builder.step().tasks[device];
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    const SimLabel& label = builder.labels().at(tasks[index].label);
    if (is_bubble(tasks[index], label)) continue;
    const double seconds = times.tasks[device][index].end_s - times.tasks[device][index].begin_s;
    *account_of(rank, label) += seconds;
    rank.action_seconds[static_cast<std::size_t>(label.action.kind)] += seconds;
  }
  rank.bubble_seconds = std::max(
      0.0, times.step_seconds - rank.compute_seconds - rank.update_seconds - rank.transfer_seconds);
}

// Tasks with one label are one bar, from the first's begin to the last's end; those without a label
// are not drawn.
void draw_row(const StepBuilder& builder, const SimTimes& times, int row, int rank,
              Timeline& timeline) {
  const std::vector<SimTask>& tasks = builder.step().tasks[row];
  int last_label = -1;
  for (std::size_t index = 0; index < tasks.size(); ++index) {
    if (tasks[index].label < 0) continue;
    const SimSpan& when = times.tasks[row][index];
    if (tasks[index].label == last_label) {
      timeline.spans.back().end_s = when.end_s;
      continue;
    }
    last_label = tasks[index].label;
    const SimLabel& label = builder.labels().at(last_label);
    timeline.spans.push_back({.rank = rank,
                              .lane = label.lane,
                              .name = label.name,
                              .category = label.category,
                              .begin_s = when.begin_s,
                              .end_s = when.end_s});
  }
}

void draw(const StepBuilder& builder, const SimTimes& times, int device, int rank,
          Timeline& timeline) {
  const int doer = doer_of(builder.step(), device);
  draw_row(builder, times, doer, rank, timeline);
  const int beside = builder.row_beside(doer);
  if (beside < std::ssize(builder.step().tasks)) draw_row(builder, times, beside, rank, timeline);
}

}  // namespace

const RankPrediction& Prediction::fullest() const {
  return *std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.free_bytes() < b.free_bytes();
  });
}

Efficiency efficiency_of(const Plan& plan, const ModelConfig& model, const CostModel& costs,
                         double tokens_per_second) {
  const double model_flops = tokens_per_second * model_flops_per_token(model, plan.sequence_length);
  const DType dtype = dtype_named(plan.dtype).value_or(DType::kF32);
  double peaks = 0;
  double gemms = 0;
  bool all_peaks = true;
  bool all_gemms = true;
  for (const std::string& kind : plan.kind_of_rank()) {
    const double peak = costs.peak_flops_per_s(kind, dtype);
    const double gemm = costs.gemm_flops_per_s(kind, dtype);
    all_peaks = all_peaks && peak > 0;
    all_gemms = all_gemms && gemm > 0;
    peaks += peak;
    gemms += gemm;
  }
  return {.mfu = all_peaks && peaks > 0 ? model_flops / peaks : 0,
          .gemm_fraction = all_gemms && gemms > 0 ? model_flops / gemms : 0};
}

StepNumbers numbers_of(const Plan& plan, const RankPlans& ranks, const CostModel& costs,
                       ProgramCost* cost) {
  PlanPricer pricer(plan, ranks, costs);
  StepNumbers numbers;
  ProgramCost total;
  for (int number = 0; number < std::ssize(plan.pipelines); ++number) {
    const Pipeline& pipeline = plan.pipelines[number];
    std::vector<StageNumbers>& stages = numbers.stages.emplace_back();
    const auto count = static_cast<int>(pipeline.stages.size());
    const auto ranges = static_cast<int>(pipeline.stages.front().layers.size());
    for (int position = 0; position < count * ranges; ++position) {
      const RankPosition first = {number, stage_of_position(position, count), 0};
      const Stage& stage = pipeline.stages[first.stage];
      const RankNumbers& one = pricer.of(first);
      stages.push_back(one.stages.at(range_of_position(position, count)));
      // The first rank of a stage has its share of the rows.
      const IndexRange own = boundary_rows(plan, first);
      stages.back().sent_bytes *=
          static_cast<double>(pipeline.micro_batch_size * plan.sequence_length) /
          static_cast<double>(own.size());
      if (position >= count) continue;
      total.add(one.compute, pipeline.micro_batches * static_cast<int>(stage.ranks.size()));
    }
  }
  for (auto* seconds : {&numbers.check_seconds, &numbers.norm_seconds, &numbers.update_seconds,
                        &numbers.copy_seconds}) {
    seconds->resize(plan.world_size());
  }
  numbers.buckets.resize(plan.world_size());
  for_each_rank(plan, [&](const RankPosition& at, int rank) {
    const RankNumbers& one = pricer.of(at);
    total.add(one.check);
    total.add(one.norm);
    total.add(one.update);
    total.add(one.copies);
    numbers.check_seconds[rank] = one.check.seconds;
    numbers.buckets[rank] = one.buckets;
    numbers.norm_seconds[rank] = one.norm.seconds;
    numbers.update_seconds[rank] = one.update.seconds;
    numbers.copy_seconds[rank] = one.copies.seconds;
  });
  if (cost != nullptr) *cost = total;
  return numbers;
}

Prediction predict(const Plan& plan, const ModelConfig& model, const CostModel& costs,
                   const PredictOptions& options) {
  require_valid(plan, model);
  const std::vector<Segment> segments = segments_of(plan, model);
  const RankPlans ranks = distinct_rank_plans(plan, model, segments);
  PricedPlan priced{.plan = plan, .segments = segments};
  priced.numbers = numbers_of(plan, ranks, costs, &priced.cost);
  for (const int index : ranks.index_of_rank) {
    priced.arena_bytes.push_back(ranks.distinct[index].memory.arena_bytes);
  }
  Prediction prediction = predict(priced, model, costs, options);
  if (!options.stages) return prediction;
  StepFlops flops;
  prediction.stages = stage_accounts(plan, ranks, costs, prediction, &flops);
  prediction.hardware_flops_per_s =
      prediction.model_flops_per_s * (1 + flops.again / std::max(flops.needed, 1.0));
  return prediction;
}

Prediction predict(const PricedPlan& priced, const ModelConfig& model, const CostModel& costs,
                   const PredictOptions& options) {
  const Plan& plan = priced.plan;
  const std::vector<int> devices = cluster_ranks_of(plan, costs.ranks());
  const std::vector<std::string> kinds = plan.kind_of_rank();
  Prediction prediction{.cost = priced.cost};
  StepBuilder builder(costs);
  write_step(builder, plan, priced.segments, priced.numbers, devices,
             options.timeline ? Labels::kAll : Labels::kKinds);
  const SimTimes times = simulate(builder.step());

  prediction.step_seconds = times.step_seconds;
  const auto tokens = static_cast<double>(plan.global_batch * plan.sequence_length);
  prediction.tokens_per_second = times.step_seconds > 0 ? tokens / times.step_seconds : 0;
  prediction.timeline.name = "predicted";
  double busy = 0;
  std::map<int, RankPrediction> accounts;  // by who does the tasks
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const int rank = static_cast<int>(index);
    const std::string& kind = kinds[index];
    RankPrediction& one = prediction.ranks.emplace_back();
    one = {.rank = rank,
           .kind = kind,
           .arena_bytes = priced.arena_bytes.at(index),
           .fixed_bytes = costs.fixed_memory_bytes(kind),
           .device_bytes = kind_named(costs.cluster(), kind).memory_bytes};
    const auto [like, is_new] = accounts.try_emplace(doer_of(builder.step(), devices[index]), one);
    if (is_new) account(builder, times, devices[index], like->second);
    one.compute_seconds = like->second.compute_seconds;
    one.update_seconds = like->second.update_seconds;
    one.transfer_seconds = like->second.transfer_seconds;
    one.bubble_seconds = like->second.bubble_seconds;
    one.action_seconds = like->second.action_seconds;
    busy += one.compute_seconds + one.update_seconds;
    if (options.timeline) {
      prediction.timeline.rank_names[rank] = text("rank ", rank, " (", kind, ")");
      draw(builder, times, devices[index], rank, prediction.timeline);
    }
  }
  const double available = static_cast<double>(devices.size()) * times.step_seconds;
  prediction.bubble_fraction = available > 0 ? 1 - busy / available : 0;
  const Efficiency efficiency = efficiency_of(plan, model, costs, prediction.tokens_per_second);
  prediction.mfu = efficiency.mfu;
  prediction.model_flops_per_s =
      prediction.tokens_per_second * model_flops_per_token(model, plan.sequence_length);
  prediction.gemm_fraction = efficiency.gemm_fraction;
  return prediction;
}

}  // namespace hethub
