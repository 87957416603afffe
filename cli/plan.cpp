#include <cstdio>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/plan_text.h"
#include "cli/verb.h"
#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/cluster/cluster_file.h"
#include "hethub/cost/costs_file.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan_file.h"
#include "hethub/search/planner_case.h"
#include "hethub/search/schedule_variants.h"
#include "hethub/search/search_cache.h"
#include "hethub/search/strategy.h"

namespace hethub {
namespace {

constexpr double kSecondsADay = 86400;

struct PlanArguments {
  std::string model = {};
  std::string cluster = {};
  std::string costs = {};
  std::string output = {};
  std::string show_model = {};
  std::string planner_case = {};
  std::string counts = {};
  std::string strategy = "exact";
  std::uint64_t seed = 1;
  std::int64_t global_batch = 0;
  std::int64_t sequence_length = 0;
  std::string dtype = "f32";
  bool sequence_parallel = false;
  std::size_t keep = 5;
  double time_limit_s = 15;
  std::string objective = "tokens_per_second";
  double tokens = 0;         // to train, for the deadline
  double deadline_days = 0;  // 0: none
  bool pareto = false;
  std::vector<std::string> pins = {};
};

int show_model(const std::string& path, bool json) {
  const ModelConfig model = read_model(path);
  const Json object = {{"family", model.family},
                       {"layers", model.layers},
                       {"hidden_size", model.hidden_size},
                       {"intermediate_size", model.intermediate_size},
                       {"heads", model.heads},
                       {"kv_heads", model.kv_heads},
                       {"head_dim", model.head_dim},
                       {"vocab_size", model.vocab_size},
                       {"max_position_embeddings", model.max_position_embeddings},
                       {"tie_word_embeddings", model.tie_word_embeddings},
                       {"parameters", parameter_count(model)}};
  if (json) {
    std::cout << object.dump() << '\n';
  } else {
    for (const auto& [key, value] : object.items()) {
      std::cout << key << ' ' << (value.is_string() ? value.get<std::string>() : value.dump())
                << '\n';
    }
  }
  for (const std::string& warning : model.warnings) {
    std::cerr << "hethub: plan: " << path << ": " << warning << '\n';
  }
  return 0;
}

int plan_case(const PlanArguments& arguments, bool json) {
  if (arguments.output.empty()) {
    throw Error(ErrorCode::kUsage, {.what = "plan --case",
                                    .found = "no --output",
                                    .expected = "it",
                                    .fix = "say where the plan goes with -o PLAN.json"});
  }
  const std::map<std::string, int> counts = arguments.counts.empty()
                                                ? std::map<std::string, int>{}
                                                : parse_cluster_counts(arguments.counts);
  const double begin = seconds_now();
  const CaseAnswer answer =
      read_planner_case(arguments.planner_case, counts)->find(arguments.time_limit_s);
  const double took = seconds_now() - begin;
  write_file(arguments.output, to_json(answer.pipelines).dump() + "\n");
  const double gap = 1 - answer.bound_seconds / answer.step_seconds;
  if (json) {
    std::cout << Json{{"step_seconds", answer.step_seconds},
                      {"bound_seconds", answer.bound_seconds},
                      {"gap", gap},
                      {"search_seconds", took},
                      {"pipelines", answer.pipelines.size()}}
                     .dump()
              << '\n';
    return 0;
  }
  std::printf("%.6g s a step by the case's cost model, with %zu pipelines\n", answer.step_seconds,
              answer.pipelines.size());
  std::printf("no plan takes less than %.6g s (%.2f %% less); found in %.3f s\n",
              answer.bound_seconds, 100 * gap, took);
  std::printf("the plan is in %s\n", arguments.output.c_str());
  return 0;
}

void check_arguments(const PlanArguments& arguments) {
  const auto need = [](bool given, const char* option) {
    if (given) return;
    throw Error(ErrorCode::kUsage, {.what = "plan",
                                    .found = text("no ", option),
                                    .expected = "it",
                                    .fix = "see hethub plan --help"});
  };
  need(!arguments.model.empty(), "--model");
  need(!arguments.cluster.empty(), "--cluster");
  need(arguments.global_batch != 0, "--global-batch");
  need(arguments.sequence_length != 0, "--sequence-length");
  need(!arguments.output.empty(), "-o");
}

// The least tokens/s that ends `--tokens` within `--deadline`; 0: none is asked for.
double least_rate(const PlanArguments& arguments) {
  if (arguments.deadline_days <= 0) return 0;
  if (arguments.tokens <= 0) {
    throw Error(ErrorCode::kUsage, {.what = "--deadline",
                                    .found = "no --tokens",
                                    .expected = "both, or neither",
                                    .fix = "say how many tokens are to be trained by then"});
  }
  return arguments.tokens / (arguments.deadline_days * kSecondsADay);
}

DType dtype_of(const std::string& name) {
  const std::optional<DType> dtype = dtype_named(name);
  if (dtype == DType::kF32 || dtype == DType::kBf16) return *dtype;
  throw Error(ErrorCode::kUsage, {.what = "plan --dtype",
                                  .found = name,
                                  .expected = "f32 or bf16",
                                  .fix = "choose one of the two"});
}

SearchRequest request_of(const PlanArguments& arguments, const CostModel& costs) {
  SearchRequest request(costs);
  request.model = read_model(arguments.model);
  request.model_path = arguments.model;
  request.sequence_length = arguments.sequence_length;
  request.global_batch = arguments.global_batch;
  request.dtype = dtype_of(arguments.dtype);
  request.sequence_parallel = arguments.sequence_parallel;
  request.keep = std::max<std::size_t>(arguments.keep, 1);
  request.seed = arguments.seed;
  for (const std::string& pin : arguments.pins) {
    add_pin(request.pins, pin);
  }
  return request;
}

[[noreturn]] void refuse_late(const PlanArguments& arguments, double most) {
  throw Error(ErrorCode::kInvalidPlan,
              {.what = text("--deadline ", arguments.deadline_days, " days"),
               .found = text("at most ", most, " tokens/s (predicted)"),
               .expected = text(least_rate(arguments), " tokens/s or more"),
               .fix = "give it more days, fewer --tokens, or more devices"});
}

// Leaves out what is too slow for the deadline.
void keep_in_time(const PlanArguments& arguments, SearchResult& result) {
  const double least = least_rate(arguments);
  const double most = result.best.front().prediction.tokens_per_second;
  std::erase_if(result.best,
                [&](const Candidate& one) { return one.prediction.tokens_per_second < least; });
  if (result.best.empty()) refuse_late(arguments, most);
}

// The devices that are best by the objective; all of them unless another is asked for. `choices`
// takes those that no other beats.
Cluster chosen_devices(const PlanArguments& arguments, const SearchRequest& request,
                       const Strategy& strategy, std::vector<Choice>& choices) {
  const Cluster& cluster = request.costs.cluster();
  const Objective objective = parse_objective(arguments.objective);
  const double least = least_rate(arguments);
  if (objective == Objective::kTokensPerSecond && least == 0 && !arguments.pareto) return cluster;
  bool complete = true;
  choices = choices_of(request, strategy, complete);
  if (!complete) {
    std::cerr << "hethub: plan: not every choice of devices was looked at in time; a longer "
                 "--time-limit may find better\n";
  }
  const Choice* best = best_of(choices, objective, least);
  if (best == nullptr && !choices.empty()) {
    refuse_late(arguments, best_of(choices, Objective::kTokensPerSecond, 0)->tokens_per_second());
  }
  const std::map<std::string, int> devices =
      best == nullptr ? std::map<std::string, int>{} : best->devices;
  choices = pareto_of(std::move(choices));
  return objective == Objective::kTokensPerSecond || devices.empty() ? cluster
                                                                     : part_of(cluster, devices);
}

[[noreturn]] void refuse_empty(const SearchResult& result, const SearchRequest& request,
                               const Strategy& strategy) {
  if (!result.nearest && !result.complete) {
    throw Error(ErrorCode::kInvalidPlan,
                {.what = "planner",
                 .found = "no plan in the time that it had",
                 .expected = "1 or more",
                 .fix = "raise --time-limit, or let go of a --pin of stages or pipelines"});
  }
  if (!result.nearest) {
    throw Error(ErrorCode::kInvalidPlan, {.what = "planner",
                                          .found = "no plan that the pins allow",
                                          .expected = "1 or more",
                                          .fix = "let go of a --pin, or change --global-batch"});
  }
  const Shortage& nearest = *result.nearest;
  const std::string change = change_that_fits(request, strategy);
  throw Error(
      ErrorCode::kInvalidPlan,
      {.what = "planner: memory",
       .found =
           text("0 of ", result.too_big, " plans that fit; the nearest, ", summary_of(nearest.plan),
                ", lacks ", bytes_text(static_cast<double>(nearest.bytes_short)), " (",
                nearest.bytes_short, " bytes) on rank ", nearest.rank, " (", nearest.kind, ")"),
       .expected = "1",
       .fix = change.empty() ? "add devices, shorten --sequence-length, or take a smaller model"
                             : text("a plan fits with ", change)});
}

[[noreturn]] void refuse_variant(const std::string& schedule, const Plan& base) {
  throw Error(ErrorCode::kInvalidPlan,
              {.what = "--pin schedule=" + schedule,
               .found = "no way to run the best plan so: " + summary_of(base),
               .expected = "pipelines of several stages with memory to spare; virtual stages take "
                           "micro-batches in whole runs of the stages",
               .fix = "pin stages or micro_batch_size, too, or let go of the pin"});
}

int run_plan(const PlanArguments& arguments, bool json) {
  if (!arguments.show_model.empty()) return show_model(arguments.show_model, json);
  if (!arguments.planner_case.empty()) return plan_case(arguments, json);
  check_arguments(arguments);
  const std::unique_ptr<Strategy> strategy = make_strategy(arguments.strategy);
  const CostModel all(read_cluster(arguments.cluster),
                      arguments.costs.empty() ? Costs{} : read_costs(arguments.costs));
  // The limit is for the whole run: the searches that only explain the first take their part.
  SearchRequest whole = request_of(arguments, all);
  whole.quick = true;
  whole.time_limit_s = 0.3 * arguments.time_limit_s;
  PlanAnswer answer;
  const CostModel costs(chosen_devices(arguments, whole, *strategy, answer.choices), all.costs());
  SearchRequest request = request_on(costs, whole);
  SearchCache cache(request.model, costs, request.form());
  request.cache = &cache;
  request.quick = false;
  request.time_limit_s = 0.4 * arguments.time_limit_s;
  answer.result = strategy->find(request);
  // What explains the answer is found at once.
  const std::unique_ptr<Strategy> exact = make_strategy("exact");
  request.quick = true;
  request.time_limit_s = 0.1 * arguments.time_limit_s;
  answer.without = without_each_kind(request, *exact);
  take_faster(answer.result, answer.without, request);
  if (answer.result.best.empty()) refuse_empty(answer.result, request, *exact);
  const Candidate base = answer.result.best.front();
  answer.base_tokens_per_second = base.prediction.tokens_per_second;
  answer.changes = effects_of_changes(request, *exact, base.plan);
  request.vary_schedule = request.pins.schedule.empty() || !request.pins.variant.empty();
  answer.bound = upper_bound_of(request, *exact);
  request.quick = false;
  if (request.vary_schedule) vary_schedule(answer.result, request);
  if (answer.result.best.empty()) refuse_variant(request.pins.variant, base.plan);
  keep_in_time(arguments, answer.result);
  answer.left_out = left_out_of(answer.result, request);
  answer.emulated = emulated_in(costs.costs());
  write_file(arguments.output, to_json(answer.result.best.front().plan).dump(1) + "\n");
  if (json) {
    std::cout << json_of(answer).dump() << '\n';
    return 0;
  }
  print_answer(answer);
  std::printf("\nthe first is in %s\n", arguments.output.c_str());
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, VerbCall& call) {
  CLI::App& command = *app.add_subcommand("plan", "find the best plan for a model on a cluster");
  const auto arguments = std::make_shared<PlanArguments>();
  command.add_option("--model", arguments->model, "the model's config.json");
  command.add_option("--cluster", arguments->cluster, "the cluster file");
  command.add_option("--costs", arguments->costs, "measured costs; without: the data sheets");
  command.add_option("--global-batch", arguments->global_batch, "sequences a step")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--sequence-length", arguments->sequence_length, "tokens a sequence");
  command.add_option("--dtype", arguments->dtype, "what ops compute in: f32 or bf16")
      ->capture_default_str();
  command.add_flag("--sequence-parallel", arguments->sequence_parallel,
                   "tensor-parallel groups split norms and residuals by rows");
  command.add_option("-o,--output", arguments->output, "where the best plan goes");
  command.add_option("-k", arguments->keep, "how many plans to show")->capture_default_str();
  command.add_option("--pin", arguments->pins,
                     "fix a part: pipelines=N, stages=N, micro_batch_size=N, "
                     "tensor_parallel=N, schedule=NAME, recompute=none|full, kinds=A,B, "
                     "stageN.kind=K, stageN.layers=N");
  command.add_option("--time-limit", arguments->time_limit_s, "seconds")->capture_default_str();
  command.add_option("--strategy", arguments->strategy)
      ->description("exact, or mcmc: a random walk from what exact finds in part of the time")
      ->capture_default_str();
  command.add_option("--seed", arguments->seed, "of mcmc")->capture_default_str();
  command.add_option("--objective", arguments->objective)
      ->description("tokens_per_second, usd_per_token, joules_per_token or devices (fewest)")
      ->capture_default_str();
  command.add_option("--tokens", arguments->tokens, "tokens to train, for --deadline");
  command.add_option("--deadline", arguments->deadline_days, "days; slower plans are left out")
      ->check(CLI::PositiveNumber);
  command.add_flag("--pareto", arguments->pareto)
      ->description("list the choices of devices that no other beats");
  command.add_option("--show-model", arguments->show_model, "say what a config.json describes");
  command.add_option("--case", arguments->planner_case,
                     "plan a case that brings its own cost model instead");
  command.add_option("--cluster-counts", arguments->counts,
                     "devices of each kind of the case: KIND=COUNT,...");
  command.footer(
      "Example:\n  hethub plan --model config.json --cluster cluster.yaml --costs costs.json \\\n"
      "      --global-batch 64 --sequence-length 256 -o plan.json");
  on_chosen(command, call, "plan", arguments, run_plan);
}

}  // namespace hethub
