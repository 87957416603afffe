#include "hethub/plan/alike_ranks.h"

#include "hethub/base/text.h"
#include "hethub/plan/each_rank.h"

namespace hethub {
namespace {

void append_parts(const std::vector<TensorShard>& parts, std::string& out) {
  for (const TensorShard& part : parts) {
    out += ' ' + std::to_string(part.count);
    if (part.tensor.decays()) out += 'd';
  }
}

// By rank: what its own part of every segment it holds depends on.
std::vector<std::string> held_by_rank(const std::vector<Segment>& segments, const Plan& plan) {
  std::vector<std::string> held(static_cast<std::size_t>(plan.world_size()));
  for (const Segment& segment : segments) {
    std::string sizes = ";/" + std::to_string(segment.ranks.size());
    for (const std::vector<int>& kind : segment.kinds) {
      sizes += text('k', kind.size());
    }
    // Buckets that begin meanwhile are ready in their order.
    if (plan.overlap) sizes += text('o', segment.round);
    append_parts(segment.parts, sizes);
    sizes += " owns";
    for (std::size_t holder = 0; holder < segment.ranks.size(); ++holder) {
      std::string& mine = held[segment.ranks[holder]];
      mine += sizes;
      append_parts(owned_parts(segment, static_cast<int>(holder)), mine);
    }
  }
  return held;
}

std::vector<int> lanes_by_program(const std::vector<ProgramUse>& uses, std::size_t programs) {
  std::vector<int> all;
  for (std::size_t program = 0; program < programs; ++program) {
    all.push_back(lanes_of(uses, static_cast<int>(program)).lanes);
  }
  return all;
}

}  // namespace

RankSignatures::RankSignatures(const Plan& plan, const ModelConfig& model,
                               const std::vector<Segment>& segments)
    : plan_(plan), model_(model), layout_(layout_of(plan)), held_(held_by_rank(segments, plan)) {}

const RankSignatures::Timing& RankSignatures::timing_of(int pipeline) {
  const Pipeline& of = plan_.pipelines.at(pipeline);
  const std::size_t ranges = of.stages.front().layers.size();
  const auto [place, is_new] = timings_.try_emplace({of.stages.size(), of.micro_batches, ranges});
  Timing& timing = place->second;
  if (!is_new) return timing;
  timing.schedule = hethub::schedule_of(plan_, pipeline);
  for (int worker = 0; worker < timing.schedule.workers(); ++worker) {
    timing.alive.push_back(lanes_by_program(uses_of(timing.schedule, worker), ranges));
  }
  return timing;
}

std::string RankSignatures::of(const RankPosition& at) {
  std::string key = but_for_lanes(at) + " lanes";
  for (const int lanes : lanes_of(at)) {
    key += text(' ', lanes);
  }
  return key;
}

std::string RankSignatures::but_for_lanes(const RankPosition& at) {
  const Pipeline& pipeline = plan_.pipelines.at(at.pipeline);
  const Stage& stage = pipeline.stages.at(at.stage);
  std::string key = text(plan_.schedule, ' ', plan_.dtype, ' ', sequences_of(plan_, at).size(),
                         " tp", stage.tensor_parallel, '/',
                         vocabulary_of(model_, tensor_parallel_of(plan_, at, layout_)).size(),
                         layout_ == TensorLayout::kSplit, plan_.sequence_parallel ? " sp" : "",
                         plan_.zero_stage > 1 ? " z2" : "",
                         plan_.overlap ? text(" o", pipeline.micro_batches, '.', at.stage) : "");
  if (stage.expert_parallel > 1) {
    const TensorParallel parallel = tensor_parallel_of(plan_, at, layout_);
    key += text(" ep", stage.expert_parallel, '/', experts_of(model_, parallel).size(), '/',
                group_experts_of(model_, parallel).size(), '/',
                batch_shape(plan_, at).expert_sequences);
  }
  for (const int position : positions_of(pipeline, at.stage)) {
    const Slice slice = slice_of(plan_, model_, at.pipeline, position);
    key += text(" slice", position == 0 ? " first" : "", slice.embedding ? " e" : "",
                slice.head ? " h" : "", slice.end == model_.layers ? " last" : "", " w");
    for (int layer = slice.begin; layer < slice.end; ++layer) {
      key += text(' ', model_.windows.at(layer));
      for (const RecomputeRange& range : stage.recompute) {
        if (range.layers.contains(layer)) key += text('r', static_cast<int>(range.kind));
      }
    }
  }
  return key + held_.at(stage.ranks.at(at.place));
}

RankPlans distinct_rank_plans(const Plan& plan, const ModelConfig& model,
                              const std::vector<Segment>& segments) {
  RankSignatures signatures(plan, model, segments);
  std::map<std::pair<std::string, std::string>, int> known;  // by kind and signature
  SegmentScratch scratch;
  RankPlans plans;
  plans.index_of_rank.assign(plan.world_size(), -1);
  for_each_rank(plan, [&](const RankPosition& at, int rank) {
    const std::string& kind = plan.pipelines[at.pipeline].stages[at.stage].kind;
    const auto [found, is_new] =
        known.try_emplace({kind, signatures.of(at)}, static_cast<int>(plans.distinct.size()));
    if (is_new) {
      const Schedule& schedule = signatures.schedule_of(at.pipeline);
      plans.distinct.push_back(
          make_rank_plan(plan, model, segments, at, schedule, {.scratch = &scratch}));
    }
    plans.index_of_rank[rank] = found->second;
  });
  return plans;
}

}  // namespace hethub
