#include "hethub/predict/predict.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/predict_validate.h"
#include "cli/train_setup.h"
#include "cli/verb.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/cost/costs_file.h"
#include "hethub/plan/validate.h"
#include "hethub/predict/compare_schedules.h"
#include "hethub/predict/running_cost.h"
#include "hethub/predict/what_if.h"
#include "hethub/search/reasons.h"
#include "hethub/trace/perfetto.h"

namespace hethub {
namespace {

struct PredictArguments {
  std::string plan = {};
  std::string model = {};
  std::string cluster = {};
  std::string costs = {};
  std::string trace = {};
  std::vector<std::string> what_if = {};
  bool sensitivity = false;
  bool schedules = false;
  double tokens = 0;
  bool no_bound = false;
  ValidateArguments validate = {};
};

Json json_of(const RankPrediction& rank) {
  return {{"rank", rank.rank},
          {"kind", rank.kind},
          {"compute_seconds", rank.compute_seconds},
          {"update_seconds", rank.update_seconds},
          {"transfer_seconds", rank.transfer_seconds},
          {"bubble_seconds", rank.bubble_seconds},
          {"arena_bytes", rank.arena_bytes},
          {"fixed_bytes", rank.fixed_bytes},
          {"free_bytes", rank.free_bytes()}};
}

std::string layers_text(const StageAccount& stage) {
  std::string all;
  for (const LayerRange& range : stage.layers) {
    all += text(all.empty() ? "" : ",", range.begin, "-", range.end);
  }
  return all;
}

Json json_of(const StageAccount& stage) {
  return {{"pipeline", stage.pipeline},
          {"alike_pipelines", stage.alike},
          {"stage", stage.stage},
          {"kind", stage.kind},
          {"devices", stage.devices},
          {"layers", layers_text(stage)},
          {"compute_seconds", stage.compute_seconds},
          {"recompute_seconds", stage.recompute_seconds},
          {"tensor_parallel_seconds", stage.tensor_seconds},
          {"boundary_seconds", stage.boundary_seconds},
          {"gradient_seconds", stage.gradient_seconds},
          {"parameter_seconds", stage.parameter_seconds},
          {"norm_seconds", stage.norm_seconds},
          {"optimizer_seconds", stage.optimizer_seconds},
          {"bubble_seconds", stage.bubble_seconds},
          {"flops_per_s", stage.flops_per_s},
          {"memory_bytes", stage.memory_bytes}};
}

Json json_of(const Prediction& prediction, const UpperBound& bound, const Costs& costs) {
  Json ranks = Json::array();
  for (const RankPrediction& rank : prediction.ranks) {
    ranks.push_back(json_of(rank));
  }
  Json stages = Json::array();
  for (const StageAccount& stage : prediction.stages) {
    stages.push_back(json_of(stage));
  }
  const auto devices = static_cast<double>(prediction.ranks.size());
  Json sources = Json::object();
  for (int source = 0; source < 3; ++source) {
    const double share = prediction.cost.seconds > 0
                             ? prediction.cost.seconds_by_source[source] / prediction.cost.seconds
                             : 0;
    sources[std::string(name_of(static_cast<CostSource>(source)))] = share;
  }
  return {{"predicted", true},
          {"emulated_kinds", emulated_in(costs)},
          {"step_seconds", prediction.step_seconds},
          {"tokens_per_second", prediction.tokens_per_second},
          {"bubble_fraction", prediction.bubble_fraction},
          {"mfu", prediction.mfu},
          {"hfu", prediction.hfu()},
          {"model_flops_per_s_per_device", prediction.model_flops_per_s / devices},
          {"hardware_flops_per_s_per_device", prediction.hardware_flops_per_s / devices},
          {"gemm_fraction", prediction.gemm_fraction},
          {"upper_bound_tokens_per_second", bound.tokens_per_second},
          {"costs_by_source", sources},
          {"farthest_scaling", prediction.cost.farthest},
          {"stages", stages},
          {"ranks", ranks}};
}

// In per cent of the step; what takes none on any stage is left out.
void print_stages(const Prediction& prediction) {
  struct Column {
    const char* name;
    double StageAccount::*seconds;
  };
  std::vector<Column> columns = {{"compute", &StageAccount::compute_seconds},
                                 {"recompute", &StageAccount::recompute_seconds},
                                 {"tensor", &StageAccount::tensor_seconds},
                                 {"copies", &StageAccount::boundary_seconds},
                                 {"gradients", &StageAccount::gradient_seconds},
                                 {"parameters", &StageAccount::parameter_seconds},
                                 {"norm", &StageAccount::norm_seconds},
                                 {"optimizer", &StageAccount::optimizer_seconds},
                                 {"bubble", &StageAccount::bubble_seconds}};
  std::erase_if(columns, [&](const Column& column) {
    return std::all_of(prediction.stages.begin(), prediction.stages.end(),
                       [&](const StageAccount& stage) { return stage.*column.seconds <= 0; });
  });
  std::printf("\n%-22s %-10s", "pipeline stage", "layers");
  for (const Column& column : columns) {
    std::printf(" %10s", column.name);
  }
  std::printf(" %8s %12s\n", "TFLOP/s", "memory");
  for (const StageAccount& stage : prediction.stages) {
    const std::string times = stage.alike > 1 ? text(" (", stage.alike, " alike)") : "";
    std::printf(
        "%-22s %-10s",
        text(stage.pipeline, times, " ", stage.stage, " ", stage.devices, "*", stage.kind).c_str(),
        layers_text(stage).c_str());
    for (const Column& column : columns) {
      std::printf(" %9.1f%%", 100 * stage.*column.seconds / prediction.step_seconds);
    }
    std::printf(" %8.4g %12s\n", stage.flops_per_s / 1e12,
                bytes_text(static_cast<double>(stage.memory_bytes)).c_str());
  }
}

void print_table(const Prediction& prediction, const UpperBound& bound, const Costs& costs) {
  const Prediction& p = prediction;
  std::printf("predicted step      %.6g s\n", p.step_seconds);
  std::printf("predicted rate      %.6g tokens/s\n", p.tokens_per_second);
  std::printf("predicted bubble    %.1f %%\n", 100 * p.bubble_fraction);
  const auto devices = static_cast<double>(p.ranks.size());
  std::printf("predicted FLOP/s    %.4g TFLOP/s a device for the model, %.4g with recompute\n",
              p.model_flops_per_s / devices / 1e12, p.hardware_flops_per_s / devices / 1e12);
  if (p.mfu > 0) {
    std::printf("predicted MFU       %.1f %% of the data sheets, HFU %.1f %%\n", 100 * p.mfu,
                100 * p.hfu());
  }
  if (p.gemm_fraction > 0) {
    std::printf("predicted products  %.1f %% of the measured matrix-product peaks\n",
                100 * p.gemm_fraction);
  }
  if (bound.tokens_per_second > 0) {
    std::printf("predicted bound     %.1f %% of the sum of the kinds alone (%.6g tokens/s)\n",
                100 * p.tokens_per_second / bound.tokens_per_second, bound.tokens_per_second);
  }
  for (const std::string& kind : emulated_in(costs)) {
    std::printf("emulated            %s: its costs are those of an emulated device\n",
                kind.c_str());
  }
  const double all = p.cost.seconds > 0 ? p.cost.seconds : 1;
  std::printf(
      "costs               %.0f %% measured, %.0f %% scaled (up to %.3g x), %.0f %% data sheet\n",
      100 * p.cost.seconds_by_source[0] / all, 100 * p.cost.seconds_by_source[1] / all,
      p.cost.farthest, 100 * p.cost.seconds_by_source[2] / all);
  print_stages(p);
  std::printf("\n%4s %-12s %10s %10s %10s %10s %12s %12s\n", "rank", "kind", "compute", "messages",
              "optimizer", "waiting", "memory", "free");
  for (const RankPrediction& rank : p.ranks) {
    const double step = p.step_seconds / 100;
    std::printf("%4d %-12s %9.1f%% %9.1f%% %9.1f%% %9.1f%% %12s %12s\n", rank.rank,
                rank.kind.c_str(), rank.compute_seconds / step, rank.transfer_seconds / step,
                rank.update_seconds / step, rank.bubble_seconds / step,
                bytes_text(static_cast<double>(rank.arena_bytes + rank.fixed_bytes)).c_str(),
                rank.free_bytes() >= 0
                    ? bytes_text(static_cast<double>(rank.free_bytes())).c_str()
                    : ("-" + bytes_text(static_cast<double>(-rank.free_bytes()))).c_str());
  }
}

std::vector<Gain> gains_asked_for(const PredictArguments& arguments, const Plan& plan,
                                  const ModelConfig& model, const CostModel& costs,
                                  double step_seconds) {
  std::vector<Gain> gains;
  for (const std::string& given : arguments.what_if) {
    gains.push_back(gain_of(plan, model, costs, step_seconds, parse_improvement(given)));
  }
  if (!arguments.sensitivity) return gains;
  const std::vector<Gain> all = gains_of(plan, model, costs, step_seconds);
  gains.insert(gains.end(), all.begin(), all.end());
  return gains;
}

Json json_of(const std::vector<Gain>& gains) {
  Json all = Json::array();
  for (const Gain& gain : gains) {
    all.push_back({{"what", gain.improvement.what},
                   {"factor", gain.improvement.factor},
                   {"step_seconds", gain.step_seconds},
                   {"speedup", gain.speedup}});
  }
  return all;
}

void print(const std::vector<Gain>& gains) {
  if (gains.empty()) return;
  std::printf("\nthe same plan, predicted, if these were faster\n");
  for (const Gain& gain : gains) {
    std::printf("  %-16s %5.3g x  step %.6g s, %.3f times as fast\n", gain.improvement.what.c_str(),
                gain.improvement.factor, gain.step_seconds, gain.speedup);
  }
}

// A step's energy and price, and how long so many tokens take; what is not known is left out.
Json running_json(const RunningCost& cost, const Prediction& prediction, double tokens) {
  Json all = Json::object();
  const auto add = [&](const std::string& of, double seconds) {
    if (cost.watts > 0) all[of + "_kilowatt_hours"] = cost.kilowatt_hours(seconds);
    if (cost.usd_per_hour > 0) all[of + "_usd"] = cost.usd(seconds);
  };
  add("step", prediction.step_seconds);
  if (tokens <= 0) return all;
  const double seconds = tokens / prediction.tokens_per_second;
  all["run_tokens"] = tokens;
  all["run_days"] = seconds / 86400;
  add("run", seconds);
  return all;
}

void print_running(const Json& running) {
  for (const auto& [name, value] : running.items()) {
    std::printf("predicted %-20s %.6g\n", name.c_str(), value.get<double>());
  }
}

UpperBound bound_of(const Plan& plan, const ModelConfig& model, const CostModel& costs) {
  SearchRequest request(costs);
  request.model = model;
  request.sequence_length = plan.sequence_length;
  request.global_batch = plan.global_batch;
  request.dtype = dtype_named(plan.dtype).value_or(DType::kF32);
  request.sequence_parallel = plan.sequence_parallel;
  request.time_limit_s = 2;
  request.vary_schedule = true;
  return upper_bound_of(request, *make_strategy("exact"));
}

Json json_of(const std::vector<ScheduleAnswer>& answers) {
  Json all = Json::array();
  for (const ScheduleAnswer& one : answers) {
    all.push_back({{"name", one.name}, {"predict_only", !one.runs}});
    if (!one.misfit.empty()) {
      all.back()["needs"] = one.misfit;
      continue;
    }
    all.back()["micro_batches_seconds"] = one.seconds;
    all.back()["bubble_fraction"] = one.bubble;
    all.back()["micro_batches_alive"] = one.most_alive;
    all.back()["weight_versions"] = one.weight_versions;
    all.back()["weight_copies"] = one.weight_copies;
  }
  return all;
}

void print(const std::vector<ScheduleAnswer>& answers) {
  if (answers.empty()) return;
  std::printf("\nthe first pipeline's micro-batches, predicted, under each schedule\n");
  std::printf("  %-14s %12s %8s %6s %9s %7s\n", "schedule", "seconds", "bubble", "alive",
              "versions", "copies");
  for (const ScheduleAnswer& one : answers) {
    if (!one.misfit.empty()) {
      std::printf("  %-14s needs %s\n", one.name.c_str(), one.misfit.c_str());
      continue;
    }
    std::printf("  %-14s %12.6g %7.1f%% %6d %9d %7d%s\n", one.name.c_str(), one.seconds,
                100 * one.bubble, one.most_alive, one.weight_versions, one.weight_copies,
                one.runs ? "" : "  predict only");
  }
}

int run_predict(const PredictArguments& arguments, bool json) {
  if (!arguments.validate.files.empty()) return run_validate(arguments.validate, json);
  if (arguments.plan.empty() || arguments.cluster.empty()) {
    throw Error(ErrorCode::kUsage, {.what = "predict",
                                    .found = "no --plan or no --cluster",
                                    .expected = "both",
                                    .fix = "see hethub predict --help"});
  }
  const auto [plan, model] = read_plan_and_model(arguments.plan, arguments.model);
  const CostModel costs(read_cluster(arguments.cluster),
                        arguments.costs.empty() ? Costs{} : read_costs(arguments.costs));
  const std::clock_t began = std::clock();
  const Prediction prediction =
      predict(plan, model, costs, {.timeline = !arguments.trace.empty(), .stages = true});
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  if (!arguments.trace.empty()) write_perfetto({&prediction.timeline, 1}, arguments.trace);
  const UpperBound bound = arguments.no_bound ? UpperBound{} : bound_of(plan, model, costs);
  const std::vector<Gain> gains =
      gains_asked_for(arguments, plan, model, costs, prediction.step_seconds);
  std::vector<ScheduleAnswer> schedules;
  if (arguments.schedules) schedules = compare_schedules(plan, model, costs);
  const Json running =
      running_json(running_cost_of(plan, costs.cluster()), prediction, arguments.tokens);
  if (json) {
    Json object = json_of(prediction, bound, costs.costs());
    object["prediction_cpu_seconds"] = seconds;
    if (!running.empty()) object["running"] = running;
    if (!gains.empty()) object["what_if"] = json_of(gains);
    if (!schedules.empty()) object["schedules"] = json_of(schedules);
    std::cout << object.dump() << '\n';
  } else {
    print_table(prediction, bound, costs.costs());
    print_running(running);
    print(gains);
    print(schedules);
  }
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, VerbCall& call) {
  CLI::App& command = *app.add_subcommand("predict", "say what a plan's step will take");
  const auto arguments = std::make_shared<PredictArguments>();
  command.add_option("--plan", arguments->plan, "the plan file");
  command.add_option("--cluster", arguments->cluster, "the cluster file");
  command.add_option("--costs", arguments->costs, "measured costs; without: the data sheets");
  command.add_option("--model", arguments->model, "config.json; without: the one the plan names");
  command.add_option("--trace", arguments->trace, "write the simulated step for Perfetto");
  command.add_option("--what-if", arguments->what_if,
                     "PART=FACTOR: the plan's step if links, copies, launches, memory or a kind "
                     "were so many times as fast");
  command
      .add_option("--tokens", arguments->tokens,
                  "say how many days so many tokens take, and what they cost")
      ->check(CLI::PositiveNumber);
  command.add_flag("--schedules", arguments->schedules,
                   "the first pipeline under each schedule, those of training and those that are "
                   "predict only");
  command.add_flag("--no-bound", arguments->no_bound,
                   "leave out the upper bound, which is a search of its own");
  command.add_flag("--sensitivity", arguments->sensitivity,
                   "what would help most: each part twice as fast, one at a time");
  ValidateArguments& validate = arguments->validate;
  command.add_option(
      "--validate", validate.files,
      "published runs: prints them beside their predictions, errors for each source");
  command.add_flag("--calibrate", validate.calibrate,
                   "fit the efficiency classes to the runs first");
  command.add_flag("--held-out", validate.held_out,
                   "fit to two thirds of the runs, by whole families, and report the others");
  command.add_option("--leave-one-out", validate.leave_out,
                     "fit to all sources but this one, and report it");
  command.add_option("--rounds", validate.rounds, "of fitting")->check(CLI::Range(1, 100));
  command.footer(
      "Example:\n  hethub predict --plan plan.json --cluster cluster.yaml --costs costs.json "
      "--trace step.json\n  hethub predict --validate runs.json --held-out");
  on_chosen(command, call, "predict", arguments, run_predict);
}

}  // namespace hethub
