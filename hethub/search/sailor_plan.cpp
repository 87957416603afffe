#include "hethub/search/sailor_plan.h"

#include <algorithm>

namespace hethub {
namespace {

// The devices of a stage's replicas, in the order in which pipelines take them.
std::vector<int> replicas_of(const SailorPlan& plan, std::size_t stage) {
  std::vector<int> all;
  const SailorMix& mix = plan.stages[stage].mix;
  for (std::size_t one = 0; one < mix.size(); ++one) {
    all.insert(all.end(), plan.shares[stage][one], mix[one]);
  }
  return all;
}

// A stage's longest exchange between replicas side by side.
double exchange_of(const SailorTables& tables, const SailorPlan& plan, std::size_t stage,
                   const std::vector<int>& replicas) {
  const SailorStage& made = plan.stages[stage];
  int tp = tables.devices[replicas.front()].tp;
  for (const int device : replicas) {
    tp = std::min(tp, tables.devices[device].tp);
  }
  const auto kind = [&](std::size_t which) { return tables.devices[replicas[which]].kind; };
  double slowest = 0;
  for (std::size_t replica = 1; replica < replicas.size(); ++replica) {
    const bool as_before =
        replica > 1 && kind(replica) == kind(replica - 1) && kind(replica - 1) == kind(replica - 2);
    if (as_before) continue;
    slowest = std::max(slowest, tables.exchange(made.begin, made.end, tp, plan.replicas,
                                                kind(replica - 1), kind(replica)));
  }
  return slowest;
}

}  // namespace

std::int64_t micro_batches(const SailorTables& tables, int size, int replicas) {
  const std::int64_t at_once = static_cast<std::int64_t>(tables.sizes[size]) * replicas;
  return (tables.global_batch + at_once - 1) / at_once;
}

// Kinds in order take as many replicas as their devices allow, first in the stages where they
// spare the most of the kinds after them.
bool share_out(const SailorTables& tables, SailorPlan& plan) {
  std::vector<int> left = tables.available;
  std::vector<std::size_t> order;
  plan.shares.resize(plan.stages.size());
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const SailorMix& mix = plan.stages[stage].mix;
    plan.shares[stage].assign(mix.size(), 1);
    if (mix.size() == 1) plan.shares[stage] = {plan.replicas};
    for (std::size_t one = 0; one < mix.size(); ++one) {
      const SailorDevice& device = tables.devices[mix[one]];
      left[device.kind] -= device.tp * plan.shares[stage][one];
    }
    if (mix.size() > 1) order.push_back(stage);
  }
  const auto spares = [&](std::size_t stage) {
    const SailorMix& mix = plan.stages[stage].mix;
    return static_cast<double>(tables.devices[mix.back()].tp) / tables.devices[mix.front()].tp;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return spares(a) > spares(b); });
  for (const std::size_t stage : order) {
    const SailorMix& mix = plan.stages[stage].mix;
    int open = plan.replicas - static_cast<int>(mix.size());
    for (std::size_t one = 0; one < mix.size(); ++one) {
      const SailorDevice& device = tables.devices[mix[one]];
      const int more = std::min(open, std::max(0, left[device.kind]) / device.tp);
      plan.shares[stage][one] += more;
      left[device.kind] -= more * device.tp;
      open -= more;
    }
    if (open > 0) return false;
  }
  return *std::min_element(left.begin(), left.end()) >= 0;
}

// The formula itself, as it is.
double seconds_of(const SailorTables& tables, const SailorPlan& plan) {
  std::vector<std::vector<int>> replicas;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    replicas.push_back(replicas_of(plan, stage));
  }
  const std::size_t last = plan.stages.size() - 1;
  double slowest = 0;
  double total = 0;
  double update = 0;
  double summed = 0;
  for (std::size_t stage = 0; stage <= last; ++stage) {
    const SailorStage& made = plan.stages[stage];
    double compute = 0;
    double on = 0;
    double back = 0;
    for (std::size_t replica = 0; replica < replicas[stage].size(); ++replica) {
      const int device = replicas[stage][replica];
      compute = std::max(compute, tables.compute(device, plan.size, made.begin, made.end));
      update = std::max(update, tables.update(device, plan.size, made.begin));
      if (stage < last) {
        on = std::max(
            on, tables.transfer(made.end - 1, plan.size, device, replicas[stage + 1][replica]));
      }
      if (stage > 0) {
        back = std::max(
            back, tables.transfer(made.begin, plan.size, device, replicas[stage - 1][replica]));
      }
    }
    double messages = on + back;
    if (stage == last && last > 0) messages = 2 * back;
    if (stage == 0 && last > 2) messages = 2 * on;
    slowest = std::max(slowest, compute + messages);
    total += compute + messages;
    summed = std::max(summed, exchange_of(tables, plan, stage, replicas[stage]));
  }
  const auto more = static_cast<double>(micro_batches(tables, plan.size, plan.replicas) - 1);
  return more * slowest + total + update + summed;
}

std::vector<CasePipeline> pipelines_of(const SailorTables& tables, const SailorPlan& plan) {
  std::vector<CasePipeline> all(plan.replicas);
  for (CasePipeline& pipeline : all) {
    pipeline.micro_batch_size = tables.sizes[plan.size];
    pipeline.micro_batches = micro_batches(tables, plan.size, plan.replicas);
  }
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const std::vector<int> replicas = replicas_of(plan, stage);
    for (std::size_t replica = 0; replica < all.size(); ++replica) {
      const SailorDevice& device = tables.devices[replicas[replica]];
      all[replica].stages.push_back(
          {tables.kinds[device.kind], device.tp, plan.stages[stage].begin, plan.stages[stage].end});
    }
  }
  return all;
}

}  // namespace hethub
