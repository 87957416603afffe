#include "hethub/search/stage_pricer.h"

#include "hethub/base/text.h"
#include "hethub/model/decoder.h"
#include "hethub/plan/optimizer_ops.h"
#include "hethub/program/differentiate.h"

namespace hethub {

StagePricer::StagePricer(const ModelConfig& model, const CostModel& costs,
                         std::int64_t sequence_length)
    : model_(model), costs_(costs), sequence_length_(sequence_length) {}

const StagePricer::Table& StagePricer::table(const std::string& kind, int sequences) {
  const auto found = tables_.find({kind, sequences});
  if (found != tables_.end()) return found->second;
  const BatchShape shape{.sequences = sequences, .sequence_length = sequence_length_};
  Program kept = build_forward(model_, {0, model_.layers, true, true}, shape);
  Program again = kept;
  DifferentiateOptions all;
  for (int layer = 0; layer < model_.layers; ++layer) {
    all.recompute_layers.insert(layer);
  }
  differentiate(kept);
  differentiate(again, all);
  const auto prefix_of = [&](const Program& program, Phase phase) {
    const LayerCosts costs = price_by_layer(costs_, kind, program, phase, model_.layers);
    Prefix prefix{.before = costs.before.seconds, .layers = {0}, .after = costs.after.seconds};
    for (const ProgramCost& layer : costs.layers) {
      prefix.layers.push_back(prefix.layers.back() + layer.seconds);
    }
    return prefix;
  };
  const Program first = build_forward(model_, {0, 1, true, false}, shape);
  const auto bytes = static_cast<double>(first.values.at(first.sent_activation).spec.bytes());
  return tables_[{kind, sequences}] = {.forward = prefix_of(kept, Phase::kForward),
                                       .backward = prefix_of(kept, Phase::kBackward),
                                       .backward_again = prefix_of(again, Phase::kBackward),
                                       .sent_bytes = bytes};
}

StageNumbers StagePricer::stage(const std::string& kind, int sequences, LayerRange range,
                                bool recompute) {
  const Table& costs = table(kind, sequences);
  const double action = costs_.action_seconds(kind);
  const bool last = range.end == model_.layers;
  const auto sum = [&](const Prefix& prefix) {
    return action + (range.begin == 0 ? prefix.before : 0) + prefix.layers[range.end] -
           prefix.layers[range.begin] + (last ? prefix.after : 0);
  };
  StageNumbers numbers{.sent_bytes = last ? 0 : costs.sent_bytes};
  numbers.phase_seconds[static_cast<std::size_t>(Phase::kForward)] = sum(costs.forward);
  numbers.phase_seconds[static_cast<std::size_t>(Phase::kBackward)] =
      sum(recompute ? costs.backward_again : costs.backward);
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
  const auto held = holdings_of(segments, static_cast<int>(kinds.size()));
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    const OptimizerOps ops = optimizer_ops(segments, held[rank]);
    const auto sum = [&](const std::vector<Op>& list) {
      double all = 0;
      for (const Op& op : list) {
        all += seconds(kinds[rank], op);
      }
      return all;
    };
    numbers.check_seconds.push_back(ops.check ? seconds(kinds[rank], *ops.check) : 0);
    numbers.norm_seconds.push_back(sum(ops.norms));
    numbers.update_seconds.push_back(sum(ops.updates) + seconds(kinds[rank], ops.zero));
  }
}

StepNumbers StagePricer::numbers(const Plan& plan, const std::vector<Segment>& segments) {
  StepNumbers numbers;
  for (const Pipeline& pipeline : plan.pipelines) {
    std::vector<StageNumbers>& stages = numbers.stages.emplace_back();
    for (const Stage& one : pipeline.stages) {
      const bool recompute = !one.recompute.empty();
      stages.push_back(stage(one.kind, pipeline.micro_batch_size, one.layers.front(), recompute));
    }
  }
  add_optimizer(plan, segments, numbers);
  return numbers;
}

}  // namespace hethub
