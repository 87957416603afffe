#include "hethub/report/report_data.h"

#include "hethub/base/error.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/cost/costs_file.h"
#include "hethub/plan/plan_file.h"
#include "hethub/plan/rank_plan.h"
#include "hethub/plan/validate.h"
#include "hethub/report/traced_step.h"
#include "hethub/trace/perfetto.h"

namespace hethub {
namespace {

namespace fs = std::filesystem;

std::int64_t memory_of_kind(const Cluster* cluster, const std::string& name) {
  if (cluster == nullptr) return 0;
  for (const Kind& kind : cluster->kinds) {
    if (kind.name == name) return kind.memory_bytes;
  }
  return 0;
}

std::int64_t fixed_of_kind(const Costs* costs, const std::string& name) {
  if (costs == nullptr) return 0;
  const auto found = costs->kinds.find(name);
  return found == costs->kinds.end() ? 0 : found->second.fixed_memory_bytes;
}

RankMemory memory_of(const RankPlan& rank) {
  RankMemory memory{.rank = rank.rank,
                    .kind = rank.kind,
                    .parameters = rank.parameters.bytes,
                    .gradients = rank.gradients.bytes,
                    .optimizer = rank.first_moment.bytes + rank.second_moment.bytes,
                    .shared = rank.memory.shared_bytes,
                    .arena = rank.memory.arena_bytes};
  for (const ProgramMemory& program : rank.memory.programs) {
    memory.lanes += program.lanes * program.lane_bytes;
  }
  return memory;
}

// Fills a report part by part; a part that is not there becomes a sentence.
class Gatherer {
 public:
  explicit Gatherer(const ReportFiles& files) : files_(files) {}

  ReportData run() {
    data_.plan = read_plan(files_.plan.path);
    data_.plan_hash = plan_hash(data_.plan);
    read_model_of_plan();
    if (is_there(files_.cluster, "the devices' memory")) {
      cluster_ = read_cluster(files_.cluster.path);
    }
    if (is_there(files_.costs, "the memory beside the arena")) {
      costs_ = read_costs(files_.costs.path);
    }
    if (is_there(files_.log, "the loss, the step time and the rate")) {
      data_.log = read_run_log(files_.log.path);
    }
    data_.measured = step_in(files_.trace, "the measured timeline");
    data_.predicted = step_in(files_.predicted_trace, "the predicted timeline");
    find_emulated();
    if (data_.model) find_memory();
    return std::move(data_);
  }

 private:
  // Whether to read a file; throws if it had to be there.
  bool is_there(const ReportFile& file, const std::string& part) {
    if (!file.path.empty() && fs::exists(file.path)) return true;
    if (file.required) {
      throw Error(ErrorCode::kMissingInput, {.what = file.path.string(),
                                             .found = "no such file",
                                             .expected = "the file that was named",
                                             .fix = "check the path"});
    }
    data_.missing.push_back(text("Without ", part, ": there is no ", file.path.string(), "."));
    return false;
  }

  // A relative path in a plan counts from the plan's folder if nothing is there from the current
  // one.
  void read_model_of_plan() {
    ReportFile file = files_.model;
    if (file.path.empty()) {
      file.path = model_path_of(files_.plan.path, data_.plan);
    }
    data_.model_file = file.path.string();
    if (is_there(file, "the model's size and the memory")) data_.model = read_model(file.path);
  }

  std::optional<Timeline> step_in(const ReportFile& file, const std::string& part) {
    if (!is_there(file, part)) return {};
    const std::vector<Timeline> timelines = read_perfetto(file.path);
    if (!timelines.empty() && !timelines.front().spans.empty()) {
      return last_whole_step(timelines.front());
    }
    data_.missing.push_back(text("Without ", part, ": ", file.path.string(), " holds no span."));
    return {};
  }

  void find_emulated() {
    const std::vector<std::string> kinds = data_.plan.kind_of_rank();
    for (const std::string& name : kinds) {
      if (name.starts_with("emulated")) data_.emulated_kinds.insert(name);
      if (costs_ && costs_->kinds.contains(name) && costs_->kinds.at(name).emulated) {
        data_.emulated_kinds.insert(name);
      }
      for (const Kind& kind : cluster_ ? cluster_->kinds : std::vector<Kind>{}) {
        if (kind.name == name && kind.backend.starts_with("emulated"))
          data_.emulated_kinds.insert(name);
      }
    }
  }

  void find_memory() {
    require_valid(data_.plan, *data_.model);
    const std::vector<Segment> segments = segments_of(data_.plan, *data_.model);
    for (int rank = 0; rank < data_.plan.world_size(); ++rank) {
      RankMemory memory = memory_of(make_rank_plan(data_.plan, *data_.model, segments, rank));
      memory.device = memory_of_kind(cluster_ ? &*cluster_ : nullptr, memory.kind);
      memory.fixed = fixed_of_kind(costs_ ? &*costs_ : nullptr, memory.kind);
      data_.memory.push_back(std::move(memory));
    }
  }

  const ReportFiles& files_;
  ReportData data_ = {};
  std::optional<Cluster> cluster_ = {};
  std::optional<Costs> costs_ = {};
};

}  // namespace

ReportFiles files_of_run(const fs::path& folder) {
  return {.plan = {folder / "plan.json", true},
          .cluster = {folder / "cluster.yaml"},
          .costs = {folder / "costs.json"},
          .log = {folder / "log.jsonl"},
          .trace = {folder / "trace.json"},
          .predicted_trace = {folder / "predicted-trace.json"}};
}

ReportData read_report_data(const ReportFiles& files) { return Gatherer(files).run(); }

}  // namespace hethub
