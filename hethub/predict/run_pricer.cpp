#include "hethub/predict/run_pricer.h"

#include <algorithm>

#include "hethub/base/error.h"
#include "hethub/base/split.h"
#include "hethub/cost/analytic.h"
#include "hethub/plan/interleaved.h"
#include "hethub/plan/schedule.h"
#include "hethub/predict/plan_step.h"

namespace hethub {
namespace {

// Latencies of a message in a collective. A collective library's own measurements on these links
// are of this size; runs are too coarse to tell.
constexpr double kLinkLatency = 3e-6;
constexpr double kNetworkLatency = 8e-6;
constexpr double kMessagesTake = 0.15;      // of a device, while they are under way
constexpr double kUnknownLink = 12e9;       // PCIe 3.0 with 16 lanes
constexpr double kUnknownNetwork = 12.5e9;  // of a node: 100 Gb/s

// All that one stage's devices are.
struct StageDevice {
  const DataSheet* sheet = nullptr;
  double link = 0;     // bytes/s that a collective reaches in a node, a device
  double network = 0;  // and between nodes, all devices of a node together
};

// Prices one run on one kind.
class StageCost {
 public:
  StageCost(const PublishedRun& run, const Software& software, StageDevice device)
      : run_(run), software_(software), device_(device), tp_(run.tensor_parallel) {
    peak_ = product_peak(device.sheet->kind, dtype_of(run));
  }

  double seconds(const std::vector<ModelOps::Counted>& ops) const {
    double sum = 0;
    for (const ModelOps::Counted& one : ops) {
      sum += one.times * seconds(one.op);
    }
    return sum;
  }

  double phase_seconds(const ModelOps& ops, Phase which, int layers, bool first, bool last) const {
    const ModelOps::Part& part = ops.phases[static_cast<std::size_t>(which)];
    return layers * seconds(part.layer) + (first ? seconds(part.before) : 0) +
           (last ? seconds(part.after) : 0);
  }

  // A group of every `stride`-th rank shares its node's links with its like.
  LinkRate group_rate(int ranks, int stride) const {
    const int of_node = std::max(1, std::min(ranks, run_.devices_per_node / stride));
    if (ranks <= of_node) return {kLinkLatency, device_.link};
    const double share = device_.network * of_node / run_.devices_per_node;
    return {kNetworkLatency, std::min(device_.link, share)};
  }

  double optimizer_seconds(double elements) const {
    const auto count = static_cast<std::int64_t>(elements);
    return analytic({"", DType::kF32, AdamW{.count = count}}) +
           analytic({"", DType::kF32, SumSquares{count}});
  }

  double send_bytes() const {
    const double rows =
        static_cast<double>(run_.micro_batch_size * run_.sequence_length) / run_.context_parallel;
    const double whole = static_cast<double>(size_of(dtype_of(run_))) * rows *
                         static_cast<double>(run_.model.hidden_size);
    return whole / tp_;  // each rank of a group sends its part
  }

  LinkRate send_rate() const {
    const int stage = run_.world_size() / run_.pipeline_parallel;
    if (run_.world_size() <= run_.devices_per_node) return {kLinkLatency, device_.link};
    if (stage * 2 <= run_.devices_per_node) return {kLinkLatency, device_.link};
    return {kNetworkLatency, std::min(device_.link, device_.network / run_.devices_per_node)};
  }

  const Kind& kind() const { return device_.sheet->kind; }

 private:
  double analytic(const Op& op) const {
    return analytic_seconds(device_.sheet->kind, peak_, op, software_.attention);
  }

  double seconds(const Op& op) const {
    if (const auto* group = std::get_if<GroupStart>(&op.body)) return group_seconds(*group, op);
    if (std::holds_alternative<GroupWait>(op.body)) return 0;
    const double own = analytic(op);
    if (run_.sequence_parallel && is_whole(op)) return own / tp_;
    // Each rank has 1/n of the rows, and they see all: n times the pairs of so short a sequence.
    if (is_attention(op)) return own * run_.context_parallel;
    return own;
  }

  double group_seconds(const GroupStart& group, const Op& op) const {
    const double bytes =
        static_cast<double>(std::max(group.in_count, group.out_count) * size_of(op.dtype));
    const int rounds = (group.kind == GroupKind::kAllReduce ? 2 : 1) * (group.ranks - 1);
    return std::max(kind().efficiency.launch_s,
                    ring_seconds(rounds, group.ranks, bytes, group_rate(group.ranks, 1)));
  }

  static bool is_attention(const Op& op) {
    return std::holds_alternative<Attention>(op.body) ||
           std::holds_alternative<AttentionGrad>(op.body);
  }

  // Norms and sums of whole rows, which sequence parallel shares out.
  static bool is_whole(const Op& op) {
    return std::holds_alternative<RmsNorm>(op.body) || std::holds_alternative<Add>(op.body) ||
           std::holds_alternative<RmsNormGradInput>(op.body) ||
           std::holds_alternative<RmsNormGradGain>(op.body);
  }

  const PublishedRun& run_;
  const Software& software_;
  StageDevice device_;
  int tp_;
  double peak_ = 0;
};

StageDevice device_of(const Sheets& sheets, const PublishedRun& run, const std::string& kind) {
  const DataSheet* sheet = sheets.find(kind);
  const EfficiencyClass& known = sheets.classes.at(sheet->efficiency_class);
  const double link = sheet->link_bytes_per_s > 0 ? sheet->link_bytes_per_s : kUnknownLink;
  const double of_run = run.link_bytes_per_s > 0 ? std::min(run.link_bytes_per_s, link) : link;
  double network = run.node_bytes_per_s;
  if (network <= 0) network = sheet->network_bytes_per_s_of_node;
  if (network <= 0) network = kUnknownNetwork;
  const auto fabric = sheets.fabrics.find(run.fabric);
  if (fabric != sheets.fabrics.end()) network *= fabric->second;
  return {sheet, of_run * known.link, network * known.network};
}

// A pipeline's step by write_step: one device for each stage, which all its ranks are like.
class PipelineStep {
 public:
  PipelineStep(const PublishedRun& run, const ModelOps& ops, const std::vector<StageCost>& stages)
      : run_(run), ops_(ops), stages_(stages) {}

  double seconds(const std::vector<double>& after) {
    Plan plan{.schedule = run_.virtual_stages > 1 ? "interleaved" : "1f1b",
              .pipelines = {{.micro_batch_size = run_.micro_batch_size,
                             .micro_batches = run_.micro_batches()}}};
    StepNumbers numbers{.stages = {{}}};
    std::vector<int> devices;
    for (int stage = 0; stage < run_.pipeline_parallel; ++stage) {
      plan.pipelines[0].stages.push_back({.kind = stages_[stage].kind().name,
                                          .ranks = {stage},
                                          .layers = std::vector<LayerRange>(run_.virtual_stages)});
      numbers.check_seconds.push_back(0);
      numbers.norm_seconds.push_back(0);
      numbers.update_seconds.push_back(after[stage]);
      devices.push_back(stage);
    }
    for (int position = 0; position < positions(); ++position) {
      numbers.stages[0].push_back(numbers_of(position));
    }
    const CostModel costs(cluster(), {});
    StepBuilder builder(costs);
    write_step(builder, plan, {}, numbers, devices, Labels::kNone);
    return simulate(builder.step(), SimDetail::kEndsOnly).step_seconds;
  }

  // What a stage computes while gradients are summed: forward and backward of a micro-batch, or of
  // a whole run of them once the first of its virtual stages is done.
  double seconds_beside_sums(int stage) const {
    double seconds = 0;
    for (int position = stage; position < positions(); position += run_.pipeline_parallel) {
      for (const double phase : numbers_of(position).phase_seconds) {
        seconds += phase;
      }
    }
    const double chunks = run_.virtual_stages;
    return seconds * (1 / chunks + run_.pipeline_parallel * (chunks - 1) / chunks);
  }

 private:
  int positions() const { return run_.pipeline_parallel * run_.virtual_stages; }

  // Where embedding and head count as layers, the ends have one less.
  int layers_of(int position) const {
    if (run_.virtual_stages == 1) return run_.stage_layers[position];
    const int layers = run_.model.layers;
    if (layers % positions() == 0) return layers / positions();
    const bool ends = position == 0 || position + 1 == positions();
    if ((layers + 2) % positions() == 0) return (layers + 2) / positions() - (ends ? 1 : 0);
    return static_cast<int>(part_of(layers, positions(), position).size());
  }

  StageNumbers numbers_of(int position) const {
    const StageCost& cost = stages_[stage_of_position(position, run_.pipeline_parallel)];
    const bool last = position + 1 == positions();
    StageNumbers numbers{.sent_bytes = last ? 0 : cost.send_bytes()};
    for (int phase = 0; phase < kPhases; ++phase) {
      numbers.phase_seconds[phase] = cost.phase_seconds(ops_, static_cast<Phase>(phase),
                                                        layers_of(position), position == 0, last);
    }
    return numbers;
  }

  Cluster cluster() const {
    Cluster cluster;
    for (const StageCost& stage : stages_) {
      const Kind& kind = stage.kind();
      cluster.nodes.push_back({.name = kind.name, .devices = {{.kind = kind.name, .count = 1}}});
      const bool known = std::any_of(cluster.kinds.begin(), cluster.kinds.end(),
                                     [&](const Kind& one) { return one.name == kind.name; });
      if (!known) cluster.kinds.push_back(kind);
    }
    for (const StageCost& a : stages_) {
      for (const StageCost& b : stages_) {
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

  const PublishedRun& run_;
  const ModelOps& ops_;
  const std::vector<StageCost>& stages_;
};

// Compute with messages beside it, which take some of the device from it.
double beside(double compute, double messages) {
  return std::max(compute + kMessagesTake * messages, messages);
}

double held_parameters(const PublishedRun& run, const ModelOps& ops, int stage) {
  const bool ends = stage == 0 || stage + 1 == run.pipeline_parallel;
  double tables = ends ? ops.table_parameters : 0;
  if (run.pipeline_parallel == 1 && !run.model.tie_word_embeddings) tables *= 2;
  return run.stage_layers[stage] * ops.layer_parameters + tables;
}

// Each layer's parameters come from all ranks when they are needed and go away again; its gradients
// are summed behind the backward pass. One layer's exchange hides behind another's compute.
double sharded_step(const PublishedRun& run, const ModelOps& ops, const StageCost& cost,
                    const Software& software) {
  const LinkRate rate = cost.group_rate(run.data_parallel, 1);
  const auto ring = [&](double elements, double size) {
    return ring_seconds(run.data_parallel - 1, run.data_parallel, elements * size, rate);
  };
  const double gather = ring(ops.layer_parameters, 2);
  const double scatter = ring(ops.layer_parameters, software.gradient_bytes);
  const double tables = ops.table_parameters * (run.model.tie_word_embeddings ? 1 : 2);
  double micro_batch = 3 * ring(tables, 2);
  for (int phase = 0; phase < kPhases; ++phase) {
    const auto& part = ops.phases[phase];
    const double exchange = phase == 0 ? gather : phase == 1 ? gather + scatter : 0;
    micro_batch += cost.seconds(part.before) + cost.seconds(part.after) +
                   run.model.layers * beside(cost.seconds(part.layer), exchange);
  }
  return run.micro_batches() * micro_batch;
}

}  // namespace

double ring_seconds(int rounds, int ranks, double bytes, const LinkRate& rate) {
  if (ranks < 2) return 0;
  return rounds * rate.seconds(bytes / ranks);
}

std::string RunPricer::obstacle(const PublishedRun& run) const {
  for (const auto& kinds : run.stage_kinds) {
    for (const std::string& kind : kinds) {
      const DataSheet* sheet = sheets_.find(kind);
      if (sheet == nullptr) return text("there is no data sheet of ", kind);
      if (product_peak(sheet->kind, dtype_of(run)) <= 0)
        return text("the peak of ", kind, " is not known");
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

RunPrediction RunPricer::price(const PublishedRun& run) {
  if (const std::string why = obstacle(run); !why.empty()) {
    throw Error(ErrorCode::kUnsupported, {.what = "run " + run.id,
                                          .found = why,
                                          .expected = "a run that can be priced",
                                          .fix = "leave it out"});
  }
  const Software software = run.software.empty() ? Software{} : sheets_.software.at(run.software);
  const ModelOps& ops = ops_.of(run);
  std::vector<StageCost> stages;
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    std::vector<StageCost> candidates;
    for (const std::string& kind : run.stage_kinds[stage]) {
      candidates.emplace_back(run, software, device_of(sheets_, run, kind));
    }
    stages.push_back(*std::max_element(
        candidates.begin(), candidates.end(), [&](const StageCost& a, const StageCost& b) {
          return a.phase_seconds(ops, Phase::kForward, 1, false, false) <
                 b.phase_seconds(ops, Phase::kForward, 1, false, false);
        }));
  }
  RunPrediction predicted;
  const int replicas = run.data_parallel * run.context_parallel;
  if (run.zero_stage == 3) {
    predicted.pipeline_s = sharded_step(run, ops, stages[0], software);
    predicted.optimizer_s =
        stages[0].optimizer_seconds(held_parameters(run, ops, 0) / run.data_parallel);
    predicted.step_s = predicted.pipeline_s + predicted.optimizer_s;
    return predicted;
  }
  std::vector<double> after;
  PipelineStep step(run, ops, stages);
  for (int stage = 0; stage < run.pipeline_parallel; ++stage) {
    const double held = held_parameters(run, ops, stage);
    const LinkRate rate = stages[stage].group_rate(replicas, run.tensor_parallel);
    const double second_bytes = run.zero_stage > 0 ? 2 : software.gradient_bytes;
    const int rounds = software.sums_everywhere ? 2 : 1;
    double exchange =
        ring_seconds(rounds * (replicas - 1), replicas, held * software.gradient_bytes, rate) +
        ring_seconds(replicas - 1, replicas, held * second_bytes, rate);
    if (software.overlaps) {
      const double compute = step.seconds_beside_sums(stage);
      exchange = std::max(beside(compute, exchange) - compute,
                          exchange / std::max(1, run.stage_layers[stage]));
    }
    const double optimizer =
        stages[stage].optimizer_seconds(run.zero_stage > 0 ? held / replicas : held);
    predicted.exposed_s = std::max(predicted.exposed_s, exchange);
    predicted.optimizer_s = std::max(predicted.optimizer_s, optimizer);
    after.push_back(exchange + optimizer);
  }
  predicted.step_s = step.seconds(after);
  predicted.pipeline_s = predicted.step_s - *std::max_element(after.begin(), after.end());
  return predicted;
}

}  // namespace hethub
