#include "hethub/predict/run_pipeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "hethub/plan/rank_plan.h"

namespace hethub {
namespace {

std::vector<std::string> kinds_of(const std::vector<RunStage>& stages) {
  std::vector<std::string> kinds;
  for (const RunStage& stage : stages) {
    kinds.push_back(stage.kind().name);
  }
  return kinds;
}

double& phase_of(StageNumbers& numbers, Phase phase) {
  return numbers.phase_seconds[static_cast<std::size_t>(phase)];
}

}  // namespace

Plan plan_of(const PublishedRun& run, const std::vector<std::string>& kinds) {
  Plan plan{.schedule = run.virtual_stages > 1 ? "interleaved" : "1f1b",
            .pipelines = {
                {.micro_batch_size = run.micro_batch_size, .micro_batches = run.micro_batches()}}};
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    plan.pipelines[0].stages.push_back({.kind = kinds[stage], .ranks = {stage}});
  }
  for (std::size_t position = 0; position < run.positions.size(); ++position) {
    const int stage = stage_of_position(static_cast<int>(position), run.pipeline_parallel);
    plan.pipelines[0].stages[stage].layers.push_back(run.positions[position]);
  }
  return plan;
}

RunPipeline::RunPipeline(const PublishedRun& run, const ModelOps& ops,
                         const std::vector<RunStage>& stages)
    : run_(run),
      ops_(ops),
      stages_(stages),
      plan_(plan_of(run, kinds_of(stages))),
      schedule_(schedule_of(plan_, 0)) {
  std::map<std::string, std::array<PhaseSeconds, kPhases>> phases;  // by kind
  for (const RunStage& stage : stages) {
    const auto [place, is_new] = phases.try_emplace(stage.kind().name);
    for (int phase = 0; is_new && phase < kPhases; ++phase) {
      place->second[phase] = stage.phase_seconds(ops, static_cast<Phase>(phase));
    }
  }
  for (int position = 0; position < schedule_.positions(); ++position) {
    const int stage = schedule_.worker_of[0][position];
    const Slice slice = slice_of(plan_, run.model, 0, position);
    StageNumbers& numbers = numbers_.emplace_back();
    for (int phase = 0; phase < kPhases; ++phase) {
      numbers.phase_seconds[phase] = phases.at(stages[stage].kind().name)[phase].of(slice);
    }
    if (stages[stage].sends_beside()) {
      if (!slice.head) numbers.sent_bytes = stages[stage].sent_bytes(ops);
      continue;
    }
    const double handover = stages[stage].send_rate().seconds(stages[stage].sent_bytes(ops));
    if (!slice.head) phase_of(numbers, Phase::kForward) += handover;
    if (!slice.embedding) phase_of(numbers, Phase::kBackward) += handover;
  }
}

double RunPipeline::seconds(const std::vector<double>& after) const {
  return simulate(step(after), SimDetail::kEndsOnly).step_seconds;
}

std::vector<RunPipeline::Window> RunPipeline::windows() const {
  const SimStep whole = step(std::vector<double>(run_.pipeline_parallel));
  const SimTimes times = simulate(whole);
  std::vector<Window> windows;
  for (int stage = 0; stage < run_.pipeline_parallel; ++stage) {
    std::vector<SimSpan> computes;  // devices send from their memory: each action is one task
    for (std::size_t task = 0; task < whole.tasks[stage].size(); ++task) {
      const bool is_work = whole.tasks[stage][task].kind == SimTaskKind::kWork;
      if (is_work) computes.push_back(times.tasks[stage][task]);
    }
    const auto [last_use, first_whole] = turns(stage);
    windows.push_back({computes[last_use].end_s - computes.front().begin_s,
                       times.rank_seconds[stage] - computes[first_whole].begin_s});
  }
  return windows;
}

std::int64_t RunPipeline::held(int stage) const {
  std::int64_t elements = 0;
  for (const int position : positions_of(plan_.pipelines[0], stage)) {
    elements += ops_.held.of(slice_of(plan_, run_.model, 0, position));
  }
  return elements;
}

int RunPipeline::layers(int stage) const {
  int all = 0;
  for (const LayerRange& range : plan_.pipelines[0].stages[stage].layers) {
    all += range.size();
  }
  return all;
}

SimStep RunPipeline::step(const std::vector<double>& after) const {
  const StepNumbers numbers{.stages = {numbers_},
                            .check_seconds = std::vector<double>(after.size()),
                            .norm_seconds = std::vector<double>(after.size()),
                            .update_seconds = after,
                            .sends_from_lanes = false};
  std::vector<int> devices(after.size());
  std::iota(devices.begin(), devices.end(), 0);
  const CostModel costs(cluster(), {});
  StepBuilder builder(costs);
  write_step(builder, plan_, {}, numbers, devices, Labels::kNone);
  return builder.step();
}

// Which of a stage's compute actions first uses the last of its positions' parameters, and which
// is the first to make all of a position's gradients whole.
std::pair<int, int> RunPipeline::turns(int stage) const {
  std::set<int> used;
  std::vector<int> done(schedule_.positions(), 0);
  std::pair<int, int> found = {0, -1};
  int compute = -1;
  for (const Action& action : schedule_.actions[stage]) {
    if (!action.is_compute()) continue;
    ++compute;
    if (used.insert(action.position).second) found.first = compute;
    const bool is_backward = action.kind != ActionKind::kForward;
    const bool is_last = is_backward && ++done[action.position] == schedule_.micro_batches;
    if (is_last && found.second < 0) found.second = compute;
  }
  return found;
}

Cluster RunPipeline::cluster() const {
  Cluster cluster;
  for (const RunStage& stage : stages_) {
    const Kind& kind = stage.kind();
    cluster.nodes.push_back({.name = kind.name, .devices = {{.kind = kind.name, .count = 1}}});
    const bool known = std::any_of(cluster.kinds.begin(), cluster.kinds.end(),
                                   [&](const Kind& one) { return one.name == kind.name; });
    if (!known) cluster.kinds.push_back(kind);
  }
  for (const RunStage& a : stages_) {
    for (const RunStage& b : stages_) {
      const std::string& first = a.kind().name;
      const std::string& second = b.kind().name;
      if (find_link(cluster, first, second, LinkScope::kNetwork) != nullptr) continue;
      const LinkRate slow =
          a.send_rate().bytes_per_s < b.send_rate().bytes_per_s ? a.send_rate() : b.send_rate();
      cluster.links.push_back({first, second, LinkScope::kNetwork, RouteKind::kDirect, slow});
    }
  }
  return cluster;
}

}  // namespace hethub
