#include <cstdio>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

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
#include "hethub/search/reasons.h"
#include "hethub/search/search_cache.h"
#include "hethub/search/strategy.h"

namespace hethub {
namespace {

struct PlanArguments {
  std::string model = {};
  std::string cluster = {};
  std::string costs = {};
  std::string output = {};
  std::string show_model = {};
  std::string planner_case = {};
  std::string counts = {};
  std::string strategy = "exact";
  std::int64_t global_batch = 0;
  std::int64_t sequence_length = 0;
  std::size_t keep = 5;
  double time_limit_s = 15;
  std::vector<std::string> pins = {};
};

/// Everything the verb has to say about a search.
struct Answer {
  SearchResult result = {};
  UpperBound bound = {};
  std::vector<WithoutKind> without = {};
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

[[noreturn]] void refuse_empty(const SearchResult& result) {
  if (!result.nearest) {
    throw Error(ErrorCode::kInvalidPlan, {.what = "planner",
                                          .found = "no plan that the pins allow",
                                          .expected = "1 or more",
                                          .fix = "let go of a --pin, or change --global-batch"});
  }
  const Shortage& nearest = *result.nearest;
  throw Error(
      ErrorCode::kInvalidPlan,
      {.what = "planner: memory",
       .found =
           text("0 of ", result.too_big, " plans that fit; the nearest, ", summary_of(nearest.plan),
                ", lacks ", bytes_text(static_cast<double>(nearest.bytes_short)), " (",
                nearest.bytes_short, " bytes) on rank ", nearest.rank, " (", nearest.kind, ")"),
       .expected = "1",
       .fix = "add devices, shorten --sequence-length, or take a smaller model"});
}

double gap_of(const SearchResult& result) {
  const double best = result.best.front().prediction.step_seconds;
  return best > 0 ? 1 - result.bound_seconds / best : 0;
}

Json json_of(const Answer& answer) {
  const Candidate& winner = answer.result.best.front();
  Json plans = Json::array();
  for (const Candidate& candidate : answer.result.best) {
    plans.push_back({{"summary", summary_of(candidate.plan)},
                     {"step_seconds", candidate.prediction.step_seconds},
                     {"tokens_per_second", candidate.prediction.tokens_per_second},
                     {"bubble_fraction", candidate.prediction.bubble_fraction},
                     {"least_free_bytes", candidate.prediction.fullest().free_bytes()},
                     {"plan", to_json(candidate.plan)}});
  }
  Json bound = Json::array();
  for (const KindAlone& kind : answer.bound.kinds) {
    bound.push_back({{"kind", kind.kind},
                     {"devices", kind.devices},
                     {"sequences", kind.sequences},
                     {"tokens_per_second", kind.tokens_per_second},
                     {"proven", kind.proven}});
  }
  Json without = Json::object();
  for (const WithoutKind& one : answer.without) {
    without[one.kind] = one.tokens_per_second;
  }
  return {{"predicted", true},
          {"binds", binding_of(winner)},
          {"balance", balance_of(winner.prediction)},
          {"upper_bound_tokens_per_second", answer.bound.tokens_per_second},
          {"upper_bound_holds", answer.bound.holds_for(winner.prediction.tokens_per_second)},
          {"kinds_alone", bound},
          {"tokens_per_second_without", without},
          {"complete", answer.result.complete},
          {"gap", gap_of(answer.result)},
          {"simulated", answer.result.simulated},
          {"plans", plans}};
}

void print_plans(const SearchResult& result) {
  std::printf("predicted, best first:\n");
  for (std::size_t index = 0; index < result.best.size(); ++index) {
    const Candidate& one = result.best[index];
    std::printf(
        "%2zu. %.6g s a step, %.6g tokens/s, bubble %.1f %%, least free memory %s\n    %s\n",
        index + 1, one.prediction.step_seconds, one.prediction.tokens_per_second,
        100 * one.prediction.bubble_fraction,
        bytes_text(static_cast<double>(one.prediction.fullest().free_bytes())).c_str(),
        summary_of(one.plan).c_str());
    if (index > 0) std::printf("    %s\n", loss_of(one, result.best.front()).c_str());
  }
}

const char* note_of(const KindAlone& kind) {
  if (!kind.proven) return " or more (its search proved no limit)";
  return kind.tokens_per_second > 0 ? "" : " (no plan of it alone fits)";
}

void print_reasons(const Answer& answer) {
  const Candidate& winner = answer.result.best.front();
  const double rate = winner.prediction.tokens_per_second;
  std::printf("\nwhy the first (predicted):\n");
  std::printf("  bound by %s\n", binding_of(winner).c_str());
  std::printf("  balance: the least busy rank computes %.0f %% as long as the busiest\n",
              100 * balance_of(winner.prediction));
  if (answer.bound.kinds.size() > 1 && answer.bound.tokens_per_second > 0) {
    if (answer.bound.holds_for(rate)) {
      std::printf("  %.1f %% of the upper bound, the sum of the kinds alone (%.6g tokens/s):\n",
                  100 * rate / answer.bound.tokens_per_second, answer.bound.tokens_per_second);
    } else {
      std::printf(
          "  the kinds alone reach %.6g tokens/s or more; their searches found too little to\n"
          "  be an upper bound (a longer --time-limit may find more):\n",
          answer.bound.tokens_per_second);
    }
    for (const KindAlone& kind : answer.bound.kinds) {
      std::printf("    %-12s %d device%s, %lld of the sequences: %.6g tokens/s%s\n",
                  kind.kind.c_str(), kind.devices, kind.devices == 1 ? "" : "s",
                  static_cast<long long>(kind.sequences), kind.tokens_per_second, note_of(kind));
    }
  }
  for (const WithoutKind& one : answer.without) {
    if (one.tokens_per_second > 0) {
      std::printf("  without %s: %+.1f %%%s\n", one.kind.c_str(),
                  100 * (one.tokens_per_second / rate - 1),
                  one.proven ? "" : " or better (its search proved no limit)");
    } else {
      std::printf("  without %s: no plan fits\n", one.kind.c_str());
    }
  }
  if (!answer.result.complete) {
    std::printf("  the search did not prove it best: a better plan may be up to %.1f %% faster\n",
                100 * gap_of(answer.result));
  }
}

int run_plan(const PlanArguments& arguments, bool json) {
  if (!arguments.show_model.empty()) return show_model(arguments.show_model, json);
  if (!arguments.planner_case.empty()) return plan_case(arguments, json);
  check_arguments(arguments);
  const std::unique_ptr<Strategy> strategy = make_strategy(arguments.strategy);
  const CostModel costs(read_cluster(arguments.cluster),
                        arguments.costs.empty() ? Costs{} : read_costs(arguments.costs));
  SearchRequest request(costs);
  request.model = read_model(arguments.model);
  request.model_path = arguments.model;
  request.sequence_length = arguments.sequence_length;
  request.global_batch = arguments.global_batch;
  request.keep = std::max<std::size_t>(arguments.keep, 1);
  request.time_limit_s = arguments.time_limit_s;
  for (const std::string& pin : arguments.pins) {
    add_pin(request.pins, pin);
  }
  SearchCache cache(request.model, costs, request.sequence_length);
  request.cache = &cache;
  // The limit is for the whole run: the searches that only explain the first take their part.
  request.time_limit_s = 0.6 * arguments.time_limit_s;
  Answer answer{.result = strategy->find(request)};
  if (answer.result.best.empty()) refuse_empty(answer.result);
  request.time_limit_s = 0.2 * arguments.time_limit_s;
  request.quick = true;
  answer.bound = upper_bound_of(request, *strategy);
  answer.without = without_each_kind(request, *strategy);
  write_file(arguments.output, to_json(answer.result.best.front().plan).dump(1) + "\n");
  if (json) {
    std::cout << json_of(answer).dump() << '\n';
    return 0;
  }
  print_plans(answer.result);
  for (const std::string& kind : emulated_in(costs.costs())) {
    std::printf("emulated: the costs of %s are those of an emulated device\n", kind.c_str());
  }
  print_reasons(answer);
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
  command.add_option("-o,--output", arguments->output, "where the best plan goes");
  command.add_option("-k", arguments->keep, "how many plans to show")->capture_default_str();
  command.add_option("--pin", arguments->pins,
                     "fix a part: pipelines=N, stages=N, micro_batch_size=N, "
                     "tensor_parallel=N, schedule=NAME, recompute=none|full, kinds=A,B, "
                     "stageN.kind=K, stageN.layers=N");
  command.add_option("--time-limit", arguments->time_limit_s, "seconds")->capture_default_str();
  command.add_option("--strategy", arguments->strategy, "exact")->capture_default_str();
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
