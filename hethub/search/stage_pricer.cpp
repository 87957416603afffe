#include "hethub/search/stage_pricer.h"

#include <algorithm>

#include "hethub/base/text.h"
#include "hethub/model/decoder.h"
#include "hethub/plan/optimizer_ops.h"
#include "hethub/plan/schedule.h"
#include "hethub/program/differentiate.h"

namespace hethub {

const std::vector<std::string>& priced_schedules() {
  static const std::vector<std::string> kPriced = [] {
    std::vector<std::string> names;
    for (const ScheduleEntry& entry : all_schedules()) {
      const bool whole = !entry.virtual_stages && !entry.make({}).splits_backward();
      if (whole) names.emplace_back(entry.name);
    }
    return names;
  }();
  return kPriced;
}

// Layers differ in their windows alone.
StagePricer::StagePricer(const ModelConfig& model, const CostModel& costs,
                         std::int64_t sequence_length)
    : model_(model), costs_(costs), sequence_length_(sequence_length), distinct_(model) {
  distinct_.windows.clear();
  for (const std::int64_t window : model.windows) {
    const auto found = std::find(distinct_.windows.begin(), distinct_.windows.end(), window);
    layer_sort_.push_back(static_cast<int>(found - distinct_.windows.begin()));
    if (found == distinct_.windows.end()) distinct_.windows.push_back(window);
  }
  distinct_.layers = static_cast<int>(distinct_.windows.size());
}

Program StagePricer::program(int sequences, Recompute recompute) const {
  const BatchShape shape{.sequences = sequences, .sequence_length = sequence_length_};
  Program program = build_forward(distinct_, {0, distinct_.layers, true, true}, shape);
  DifferentiateOptions options;
  add_recompute({recompute, {0, distinct_.layers}}, options);
  differentiate(program, options);
  return program;
}

PhaseSeconds StagePricer::phase_seconds(const std::string& kind, const Program& program,
                                        Phase phase) const {
  const LayerCosts costs = price_by_layer(costs_, kind, program, phase, distinct_.layers);
  LayerParts<double> parts{.before = costs.before.seconds, .after = costs.after.seconds};
  for (const int sort : layer_sort_) {
    parts.layers.push_back(costs.layers[sort].seconds);
  }
  return PhaseSeconds(parts);
}

const StagePricer::Table& StagePricer::table(const std::string& kind, int sequences) {
  const auto [place, is_new] = tables_.try_emplace({kind, sequences});
  Table& table = place->second;
  if (!is_new) return table;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const Program made = program(sequences, recompute);
    table.backward[static_cast<std::size_t>(recompute)] =
        phase_seconds(kind, made, Phase::kBackward);
    if (recompute == Recompute::kNone) table.forward = phase_seconds(kind, made, Phase::kForward);
  }
  const BatchShape shape{.sequences = sequences, .sequence_length = sequence_length_};
  table.sent_bytes = static_cast<double>(sent_spec(distinct_, shape).bytes());
  return table;
}

StageNumbers StagePricer::stage(const std::string& kind, int sequences, LayerRange range,
                                const std::vector<RecomputeRange>& recompute) {
  const Table& costs = table(kind, sequences);
  const Slice slice = slice_of(model_, range);
  const auto sum = [&](const PhaseSeconds& phase) {
    return costs_.action_seconds(kind) + phase.of(slice);
  };
  const PhaseSeconds& kept = costs.backward[0];
  double backward = sum(kept);
  for (const RecomputeRange& again : recompute) {
    const auto [begin, end] = again.layers;
    backward += costs.backward[static_cast<std::size_t>(again.kind)].layers(begin, end) -
                kept.layers(begin, end);
  }
  StageNumbers numbers{.sent_bytes = slice.head ? 0 : costs.sent_bytes};
  numbers.phase_seconds[static_cast<std::size_t>(Phase::kForward)] = sum(costs.forward);
  numbers.phase_seconds[static_cast<std::size_t>(Phase::kBackward)] = backward;
  return numbers;
}

double StagePricer::seconds(const std::string& kind, const Op& op) {
  const auto [place, is_new] =
      ops_.try_emplace({kind, text(op.body.index(), ' ', sizes_text(op))}, 0.0);
  if (is_new) place->second = costs_.op_cost(kind, op).seconds;
  return place->second;
}

void StagePricer::add_optimizer(const Plan& plan, const std::vector<Segment>& segments,
                                StepNumbers& numbers) {
  const std::vector<std::string> kinds = plan.kind_of_rank();
  const auto held = holdings_of_all(segments, static_cast<int>(kinds.size()));
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    const OptimizerOps ops = optimizer_ops(segments, held[rank]);
    const auto sum = [&](const std::vector<Op>& list) {
      double all = 0;
      for (const Op& op : list) {
        all += seconds(kinds[rank], op);
      }
      return all;
    };
    numbers.check_seconds.push_back(sum(ops.checks));
    numbers.norm_seconds.push_back(sum(ops.norms));
    numbers.update_seconds.push_back(sum(ops.update()));
  }
}

void StagePricer::add_stages(const Plan& plan, StepNumbers& numbers) {
  for (const Pipeline& pipeline : plan.pipelines) {
    std::vector<StageNumbers>& stages = numbers.stages.emplace_back();
    for (const Stage& one : pipeline.stages) {
      stages.push_back(
          stage(one.kind, pipeline.micro_batch_size, one.layers.front(), one.recompute));
    }
  }
}

StepNumbers StagePricer::numbers(const Plan& plan, const std::vector<Segment>& segments) {
  StepNumbers numbers;
  add_stages(plan, numbers);
  add_optimizer(plan, segments, numbers);
  return numbers;
}

}  // namespace hethub
