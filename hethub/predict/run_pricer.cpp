#include "hethub/predict/run_pricer.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/cost/analytic.h"
#include "hethub/plan/interleaved.h"
#include "hethub/predict/run_pipeline.h"

namespace hethub {
namespace {

constexpr double kMessagesTake = 0.15;  // of a device, while they are under way
constexpr double kSentParameter = 2;    // bytes: owners hand out 16-bit parameters

// Compute with messages beside it, which take some of the device from it.
double beside(double compute, double messages) {
  return std::max(compute + kMessagesTake * messages, messages);
}

// Each layer's parameters come from all ranks when they are needed and go away again; its gradients
// are summed behind the backward pass. One layer's exchange hides behind another's compute.
double sharded_step(const PublishedRun& run, const ModelOps& ops, const RunStage& cost,
                    const Software& software) {
  const LinkRate rate = cost.group_rate(run.data_parallel, 1);
  const auto seconds = [&](CollectiveOp op, const Slice& slice, double size) {
    const auto bytes = static_cast<double>(ops.held.of(slice)) * size;
    return cost.collective_seconds(op, run.data_parallel, bytes, rate);
  };
  const Slice layer = {0, 1, false, false};
  const double gather = seconds(CollectiveOp::kAllGather, layer, kSentParameter);
  const double scatter = seconds(CollectiveOp::kReduceScatter, layer, software.gradient_bytes);
  double micro_batch = 3 * seconds(CollectiveOp::kAllGather, {0, 0, true, true}, kSentParameter);
  for (int phase = 0; phase < kPhases; ++phase) {
    const auto& parts = ops.phases[phase];
    const double exchange = phase == 0 ? gather : phase == 1 ? gather + scatter : 0;
    micro_batch += cost.seconds(parts.before) + cost.seconds(parts.after) +
                   run.model.layers * beside(cost.seconds(parts.layers.front()), exchange);
  }
  return run.micro_batches() * micro_batch;
}

// What a stage's replicas hand each other: sums of gradients, and parameters where each replica
// updates its share of them.
double exchange_seconds(const PublishedRun& run, const RunStage& cost, const Software& software,
                        std::int64_t held) {
  const LinkRate rate = cost.group_rate(run.replicas(), run.tensor_parallel);
  const auto seconds = [&](CollectiveOp op, double size) {
    return cost.collective_seconds(op, run.replicas(), static_cast<double>(held) * size, rate);
  };
  const double sums =
      seconds(software.sums_everywhere || run.zero_stage == 0 ? CollectiveOp::kAllReduce
                                                              : CollectiveOp::kReduceScatter,
              software.gradient_bytes);
  return sums + (run.zero_stage > 0 ? seconds(CollectiveOp::kAllGather, kSentParameter) : 0);
}

}  // namespace

std::string RunPricer::obstacle(const PublishedRun& run) const {
  for (const auto& kinds : run.stage_kinds) {
    for (const std::string& kind : kinds) {
      const DataSheet* sheet = sheets_.find(kind);
      if (sheet == nullptr) return text("there is no data sheet of ", kind);
      if (product_peak(sheet->kind, dtype_of(run)) <= 0 || linear_peak(sheet->kind, run) <= 0)
        return text("the peak of ", kind, " in ", run.dtype, " is not known");
    }
  }
  if (run.virtual_stages > 1 && !can_interleave(run.pipeline_parallel, run.micro_batches())) {
    return "interleaved stages must be 2 or more, with micro-batches in whole runs of them";
  }
  if (run.zero_stage == 3 &&
      run.pipeline_parallel * run.tensor_parallel * run.context_parallel > 1) {
    return "ZeRO 3 beside other parallelism is not priced";
  }
  return sheets_.software.contains(run.software) || run.software.empty()
             ? ""
             : "what its software does is not known";
}

Software RunPricer::software_of(const PublishedRun& run) const {
  return run.software.empty() ? Software{} : sheets_.software.at(run.software);
}

RunPrediction RunPricer::price(const PublishedRun& run) {
  if (const std::string why = obstacle(run); !why.empty()) {
    throw Error(ErrorCode::kUnsupported, {.what = "run " + run.id,
                                          .found = why,
                                          .expected = "a run that can be priced",
                                          .fix = "leave it out"});
  }
  const Software software = software_of(run);
  const ModelOps& ops = ops_.of(run);
  std::vector<RunStage> stages;
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    std::vector<RunStage> candidates;
    for (const std::string& kind : run.stage_kinds[stage]) {
      candidates.emplace_back(run, software, sheets_, kind, traffic_);
    }
    stages.push_back(*std::max_element(candidates.begin(), candidates.end(),
                                       [&](const RunStage& a, const RunStage& b) {
                                         return a.phase_seconds(ops, Phase::kForward).layers(0, 1) <
                                                b.phase_seconds(ops, Phase::kForward).layers(0, 1);
                                       }));
  }
  RunPrediction predicted;
  RunPipeline step(run, ops, stages);
  const int owners = run.zero_stage > 0 ? run.replicas() : 1;
  if (run.zero_stage == 3) {
    predicted.pipeline_s = sharded_step(run, ops, stages[0], software);
    predicted.optimizer_s = stages[0].optimizer_seconds(step.held(0), owners);
    predicted.step_s = predicted.pipeline_s + predicted.optimizer_s;
    return predicted;
  }
  std::vector<double> after;
  std::vector<RunPipeline::Window> windows;
  if (software.overlaps) windows = step.windows();
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    const std::int64_t held = step.held(stage);
    double exchange = exchange_seconds(run, stages[stage], software, held);
    if (software.overlaps) {
      const double compute = run.zero_stage > 0 ? windows[stage].both() : windows[stage].gradients;
      exchange =
          std::max(beside(compute, exchange) - compute, exchange / std::max(1, step.layers(stage)));
    }
    const double optimizer = stages[stage].optimizer_seconds(held, owners);
    predicted.exposed_s = std::max(predicted.exposed_s, exchange);
    predicted.optimizer_s = std::max(predicted.optimizer_s, optimizer);
    after.push_back(exchange + optimizer);
  }
  predicted.step_s = step.seconds(after);
  predicted.pipeline_s = predicted.step_s - *std::max_element(after.begin(), after.end());
  return predicted;
}

}  // namespace hethub
