#include "hethub/profile/covered_ops.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "hethub/base/error.h"
#include "hethub/collective/additions.h"
#include "hethub/plan/tensor_width.h"

namespace hethub {
namespace {

// What a costs file tells ops apart by.
using OpKey = std::tuple<std::string_view, std::string, DType>;

OpKey key_of(const Op& op) { return {facts_of(op).kind, sizes_text(op), op.dtype}; }

Plan plan_of(const CoveredPlans& covered, std::vector<Pipeline> pipelines) {
  Plan plan{.sequence_length = covered.sequence_length, .pipelines = std::move(pipelines)};
  for (const Pipeline& pipeline : plan.pipelines) {
    plan.global_batch += pipeline.sequences();
  }
  return plan;
}

Stage stage_of(int rank, LayerRange layers) {
  return {.kind = "any", .ranks = {rank}, .layers = {layers}};
}

Pipeline replica_of(int rank, int micro_batch_size, int layers) {
  return {.micro_batch_size = micro_batch_size, .stages = {stage_of(rank, {0, layers})}};
}

void add_collective(const CollectiveAlgorithm& algorithm, const Segment& segment, int holder,
                    std::vector<Op>& ops) {
  const SlotLayout layout(algorithm, segment.owned, holder);
  for (const Step& step : algorithm.steps.at(holder)) {
    if (is_message(step.kind) || layout.elements(step.to) == 0) continue;
    ops.push_back(addition_of(algorithm, step, layout, DType::kF32));
  }
}

}  // namespace

std::vector<Plan> covering_plans(const ModelConfig& model, const CoveredPlans& covered) {
  require(!covered.micro_batch_sizes.empty(), {.what = "micro-batch sizes to profile",
                                               .found = "none",
                                               .expected = "at least one",
                                               .fix = "name the sizes that plans may use"});
  std::vector<Plan> plans;
  for (const int size : covered.micro_batch_sizes) {
    plans.push_back(plan_of(covered, {replica_of(0, size, model.layers)}));
  }
  const int smallest =
      *std::min_element(covered.micro_batch_sizes.begin(), covered.micro_batch_sizes.end());
  for (int cut = 1; cut < model.layers; ++cut) {
    const Pipeline pipeline{.micro_batch_size = smallest,
                            .stages = {stage_of(0, {0, cut}), stage_of(1, {cut, model.layers})}};
    plans.push_back(plan_of(covered, {pipeline}));
  }
  for (const int width : covered.tensor_widths) {
    if (width_fault(model, {covered.sequence_length}, width)) continue;
    for (const int size : covered.micro_batch_sizes) {
      Pipeline wide = replica_of(0, size, model.layers);
      Stage& stage = wide.stages.front();
      stage.tensor_parallel = width;
      stage.ranks.resize(static_cast<std::size_t>(width));
      std::iota(stage.ranks.begin(), stage.ranks.end(), 0);
      plans.push_back(plan_of(covered, {wide, replica_of(width, size, model.layers)}));
    }
  }
  plans.push_back(plan_of(
      covered, {replica_of(0, smallest, model.layers), replica_of(1, smallest, model.layers)}));
  return plans;
}

std::vector<Op> ops_of(const RankPlan& rank, const std::vector<Segment>& segments) {
  std::vector<Op> ops;
  for (const Program& program : rank.programs) {
    for (int phase = 0; phase < kPhases; ++phase) {
      for (const Instruction& instruction : program.phase(static_cast<Phase>(phase))) {
        const OpBody& body = instruction.op.body;
        const bool of_group =
            std::holds_alternative<GroupStart>(body) || std::holds_alternative<GroupWait>(body);
        if (!of_group) ops.push_back(instruction.op);
      }
    }
  }
  for (const auto* list :
       {&rank.check_ops, &rank.norm_ops, &rank.update_ops, &rank.copy_ops, &rank.zero_ops}) {
    for (const StepOp& step : *list) {
      ops.push_back(step.op);
    }
  }
  for (const HeldSegment& held : rank.segments) {
    const Segment& segment = segments.at(held.segment);
    if (!segment.is_shared()) continue;
    add_collective(gradient_algorithm(segment), segment, held.holder, ops);
    add_collective(parameter_algorithm(segment), segment, held.holder, ops);
  }
  return ops;
}

std::vector<Op> distinct_ops(const std::vector<Plan>& plans, const ModelConfig& model) {
  std::set<OpKey> known;
  std::vector<Op> distinct;
  for (const Plan& plan : plans) {
    const std::vector<Segment> segments = segments_of(plan, model);
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      for (Op& op : ops_of(make_rank_plan(plan, model, segments, rank), segments)) {
        if (known.insert(key_of(op)).second) distinct.push_back(std::move(op));
      }
    }
  }
  return distinct;
}

}  // namespace hethub
