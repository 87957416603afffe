#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/search/planner_case.h"
#include "hethub/search/replica_search.h"

namespace hethub {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& found,
                         const std::string& expected, const std::string& fix) {
  throw Error(ErrorCode::kInvalidConfig,
              {.what = what, .found = found, .expected = expected, .fix = fix});
}

const Json& member(const Json& object, const std::string& where, const std::string& key) {
  if (!object.is_object() || !object.contains(key)) {
    refuse(where, "no \"" + key + "\"", "it", "complete the case");
  }
  return object.at(key);
}

double amount(const Json& object, const std::string& where, const std::string& key) {
  const auto value = get<double>(object, where, key);
  if (!(value >= 0)) refuse(where + ": " + key, text(value), "0 or more", "correct it");
  return value;
}

int whole_number(const std::string& key, const std::string& where) {
  constexpr int kMost = 1 << 20;
  int value = 0;
  for (const char digit : key) {
    value = digit < '0' || digit > '9' || value > kMost ? -1 : value * 10 + (digit - '0');
    if (value < 0) break;
  }
  if (value < 1 || value > kMost) refuse(where, key, "a number of 1 or more", "correct the key");
  return value;
}

/// A case of independent pipelines, all of whose costs are sums over the layers of a stage.
class LayeredCase : public PlannerCase {
 public:
  LayeredCase(const Json& file, const std::string& where, const std::map<std::string, int>& counts)
      : where_(where), file_(file) {
    check_keys(file, where,
               {"name", "model", "global_batch", "kinds", "link", "layers", "costs", "peers",
                "source", "notes"});
    tables_.global_batch = get<std::int64_t>(file, where, "global_batch");
    if (tables_.global_batch < 1 || tables_.global_batch > (1LL << 40)) {
      refuse(where + ": global_batch", text(tables_.global_batch), "1 or more", "correct it");
    }
    const Json& link = member(file, where, "link");
    latency_ = amount(link, where + ": link", "latency_s");
    bandwidth_ = amount(link, where + ": link", "bytes_per_s");
    if (bandwidth_ <= 0) refuse(where + ": link: bytes_per_s", "0", "more", "correct it");
    tables_.layers = static_cast<int>(member(file, where, "layers").size());
    constexpr int kMostLayers = 1000;
    if (tables_.layers < 1 || tables_.layers > kMostLayers) {
      refuse(where + ": layers", text(tables_.layers), text("1 to ", kMostLayers), "correct it");
    }
    read_kinds(counts);
    read_choices();
    fill_tables();
  }

  CaseAnswer find(double time_limit_s) const override {
    const ReplicaResult result = search_replicas(tables_, {.seconds = time_limit_s});
    if (result.pipelines.empty()) {
      throw Error(ErrorCode::kInvalidPlan, {.what = where_ + ": plans",
                                            .found = "none that fits the memory",
                                            .expected = "1 or more",
                                            .fix = "give the case more devices or memory"});
    }
    CaseAnswer answer{.step_seconds = result.step_seconds, .bound_seconds = result.bound_seconds};
    for (const ChosenPipeline& one : result.pipelines) {
      CasePipeline& pipeline = answer.pipelines.emplace_back();
      pipeline.micro_batch_size = tables_.sizes[one.column.size];
      pipeline.micro_batches = one.micro_batches;
      for (const PickedStage& stage : one.column.stages) {
        const StageChoice& choice = tables_.choices[stage.choice];
        pipeline.stages.push_back(
            {tables_.kinds[choice.kind], choice.devices, stage.begin, stage.end});
      }
    }
    return answer;
  }

 private:
  void read_kinds(const std::map<std::string, int>& counts) {
    const Json& kinds = member(file_, where_, "kinds");
    for (const auto& [name, kind] : kinds.items()) {
      const std::string at = where_ + ": kinds: " + name;
      check_keys(kind, at, {"count", "per_node", "memory_bytes"});
      const auto given = counts.find(name);
      const int count = given != counts.end() ? given->second : get<int>(kind, at, "count");
      if (count < 0) refuse(at + ": count", text(count), "0 or more", "correct it");
      tables_.kinds.push_back(name);
      tables_.available.push_back(count);
      memory_.push_back(amount(kind, at, "memory_bytes"));
      per_node_.push_back(get_or<int>(kind, at, "per_node", 1));
    }
    for (const auto& [name, count] : counts) {
      if (!kinds.contains(name)) {
        refuse("--cluster-counts", name, "a kind of " + where_, "correct the name");
      }
    }
  }

  // Widths that do not divide a node would leave devices of it alone: they are not used.
  void read_choices() {
    const Json& costs = member(file_, where_, "costs");
    std::set<int> sizes;
    for (int kind = 0; kind < std::ssize(tables_.kinds); ++kind) {
      const std::string& name = tables_.kinds[kind];
      if (!costs.contains(name)) {
        refuse(where_ + ": costs", "none of " + name, "costs of every kind", "complete the case");
      }
      std::set<int> widths;
      for (const auto& [size, by_width] : costs.at(name).items()) {
        sizes.insert(whole_number(size, where_ + ": costs: " + name));
        for (const auto& [width, layers] : by_width.items()) {
          widths.insert(whole_number(width, where_ + ": costs: " + name + ": " + size));
        }
      }
      for (const int width : widths) {
        if (per_node_[kind] % width == 0) tables_.choices.push_back({kind, width});
      }
    }
    tables_.sizes.assign(sizes.begin(), sizes.end());
  }

  void fill_tables() {
    tables_.costs.assign(
        tables_.sizes.size() * tables_.choices.size() * tables_.layers * (tables_.layers + 1), {});
    for (int size = 0; size < std::ssize(tables_.sizes); ++size) {
      for (int choice = 0; choice < std::ssize(tables_.choices); ++choice) {
        fill(size, choice);
      }
    }
  }

  void fill(int size, int choice) {
    const StageChoice& made = tables_.choices[choice];
    const std::string& kind = tables_.kinds[made.kind];
    const std::string width = text(made.devices);
    const std::string micro_batch = text(tables_.sizes[size]);
    const std::string at = where_ + ": costs: " + kind + ": " + micro_batch + ": " + width;
    const Json& by_size = file_.at("costs").at(kind);
    if (!by_size.contains(micro_batch) || !by_size.at(micro_batch).contains(width)) return;
    const Json& costs = by_size.at(micro_batch).at(width);
    if (std::ssize(costs) != tables_.layers) {
      refuse(at, text(costs.size(), " rows"), text(tables_.layers, ", one a layer"), "correct it");
    }
    struct Layer {
      double seconds = 0;
      double update = 0;
      double parameters = 0;
      double held = 0;
      double output = 0;
    };
    std::vector<Layer> layers;
    for (int layer = 0; layer < tables_.layers; ++layer) {
      const std::string where = where_ + text(": layers[", layer, "]");
      const Json& sizes = file_.at("layers").at(layer);
      const Json row = {{"row", costs.at(layer)}};
      const auto seconds = get<std::vector<double>>(row, at, "row");
      if (seconds.size() != 3 || !(*std::min_element(seconds.begin(), seconds.end()) >= 0)) {
        refuse(at + text("[", layer, "]"), costs.at(layer).dump(),
               "[forward, backward, update], none negative", "correct it");
      }
      layers.push_back({.seconds = seconds[0] + seconds[1],
                        .update = seconds[2],
                        .parameters = amount(member(sizes, where, "parameters"), where, width),
                        .held = amount(member(sizes, where, "activations"), where, width),
                        .output = amount(sizes, where, "output")});
    }
    const double whole = made.devices == 1 ? 2e9 : 3e9;
    const double batch = tables_.sizes[size];
    for (int begin = 0; begin < tables_.layers; ++begin) {
      Layer sum;
      for (int end = begin + 1; end <= tables_.layers; ++end) {
        const Layer& added = layers[end - 1];
        sum.seconds += added.seconds;
        sum.update += added.update;
        sum.parameters += added.parameters;
        sum.held += added.held;
        const bool last = end == tables_.layers;
        StageCost& cost = tables_.costs[tables_.index_of(size, choice, begin, end)];
        cost.seconds =
            sum.seconds + (last ? 0 : 2 * (latency_ + 4 * batch * added.output / bandwidth_));
        cost.update = sum.update;
        cost.exchange = 4 * sum.parameters / bandwidth_;
        const auto fits = [&](int from_end) {
          return 24 * sum.parameters + 4 * sum.held * batch * from_end + whole <=
                 memory_[made.kind];
        };
        while (cost.deepest < tables_.layers && fits(cost.deepest + 1)) {
          ++cost.deepest;
        }
      }
    }
  }

  std::string where_;
  Json file_;
  PipelineTables tables_ = {};
  std::vector<double> memory_ = {};
  std::vector<int> per_node_ = {};
  double latency_ = 0;
  double bandwidth_ = 0;
};

}  // namespace

std::unique_ptr<PlannerCase> layered_case(const Json& file, const std::string& where,
                                          const std::map<std::string, int>& counts) {
  return std::make_unique<LayeredCase>(file, where, counts);
}

}  // namespace hethub
