#include "hethub/predict/stage_account.h"

#include <algorithm>

#include "hethub/predict/alike_pipelines.h"
#include "hethub/predict/group_price.h"

namespace hethub {
namespace {

// As differentiate() names what it computes again.
bool is_again(const Instruction& instruction) { return instruction.op.name.ends_with(".again"); }

// Of one micro-batch on one rank.
struct Work {
  double recompute_seconds = 0;
  double tensor_seconds = 0;
  StepFlops flops = {};
};

Work work_of(const RankPlan& rank, const CostModel& costs,
             const std::vector<std::vector<int>>& groups) {
  GroupPricer pricer(costs, groups);
  Work work;
  std::vector<Instruction> again;
  for (const Program& program : rank.programs) {
    for (int phase = 0; phase < kPhases; ++phase) {
      for (const Instruction& instruction : program.phase(static_cast<Phase>(phase))) {
        const double flops = facts_of(instruction.op).flops;
        (is_again(instruction) ? work.flops.again : work.flops.needed) += flops;
        if (const auto* start = std::get_if<GroupStart>(&instruction.op.body)) {
          work.tensor_seconds += pricer.seconds(*start, instruction.op.dtype);
        } else if (is_again(instruction) &&
                   !std::holds_alternative<GroupWait>(instruction.op.body)) {
          again.push_back(instruction);
        }
      }
    }
  }
  work.recompute_seconds = price(costs, rank.kind, again).seconds;
  return work;
}

void add_rank(const RankPrediction& rank, StageAccount& account) {
  account.boundary_seconds =
      rank.of(ActionKind::kSendActivation) + rank.of(ActionKind::kRecvActivation) +
      rank.of(ActionKind::kSendGradient) + rank.of(ActionKind::kRecvGradient);
  account.gradient_seconds = rank.of(ActionKind::kSyncGradients);
  account.parameter_seconds = rank.of(ActionKind::kSyncParameters);
  account.norm_seconds = rank.of(ActionKind::kSyncNorm);
  account.optimizer_seconds = rank.of(ActionKind::kCheckGradients) +
                              rank.of(ActionKind::kNormGradients) + rank.of(ActionKind::kUpdate);
  account.bubble_seconds = rank.bubble_seconds;
}

}  // namespace

std::vector<StageAccount> stage_accounts(const Plan& plan, const RankPlans& ranks,
                                         const CostModel& costs, const Prediction& prediction,
                                         StepFlops* flops) {
  const std::vector<int> devices = cluster_ranks_of(plan, costs.ranks());
  const std::vector<int> first = first_alike(plan, costs.ranks(), devices);
  std::vector<StageAccount> accounts;
  for (int number = 0; number < std::ssize(plan.pipelines); ++number) {
    if (first[number] != number) continue;
    const Pipeline& pipeline = plan.pipelines[number];
    const auto alike = static_cast<int>(std::count(first.begin(), first.end(), number));
    for (int index = 0; index < std::ssize(pipeline.stages); ++index) {
      const Stage& stage = pipeline.stages[index];
      const int rank = stage.ranks.front();
      const Work work =
          work_of(ranks.of(rank), costs,
                  devices_of_groups(plan, {number, index, 0}, ranks.of(rank), devices));
      StageAccount& account = accounts.emplace_back();
      account = {.pipeline = number,
                 .stage = index,
                 .alike = alike,
                 .kind = stage.kind,
                 .devices = static_cast<int>(stage.ranks.size()),
                 .layers = stage.layers,
                 .recompute_seconds = work.recompute_seconds * pipeline.micro_batches,
                 .tensor_seconds = work.tensor_seconds * pipeline.micro_batches};
      add_rank(prediction.ranks.at(rank), account);
      account.compute_seconds = prediction.ranks[rank].compute_seconds - account.recompute_seconds -
                                account.tensor_seconds;
      const double all = work.flops.needed + work.flops.again;
      account.flops_per_s = all * pipeline.micro_batches / prediction.step_seconds;
      for (const int one : stage.ranks) {
        const RankPrediction& of_rank = prediction.ranks[one];
        account.memory_bytes =
            std::max(account.memory_bytes, of_rank.arena_bytes + of_rank.fixed_bytes);
      }
      if (flops == nullptr) continue;
      const double times = 1.0 * pipeline.micro_batches * account.devices * alike;
      flops->needed += times * work.flops.needed;
      flops->again += times * work.flops.again;
    }
  }
  return accounts;
}

}  // namespace hethub
