#include "cli/plan_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/plan/alike_pipelines.h"
#include "hethub/plan/plan_file.h"

namespace hethub {
namespace {

double gap_of(const SearchResult& result) {
  const double best = result.best.front().prediction.step_seconds;
  return best > 0 ? 1 - result.bound_seconds / best : 0;
}

// Money and energy are null where the cluster does not state them.
Json json_of(const Choice& choice) {
  const RunningCost& running = choice.running;
  return {{"devices", choice.devices},
          {"tokens_per_second", choice.tokens_per_second()},
          {"usd_per_token", running.usd_per_hour > 0 ? Json(choice.usd_per_token()) : Json()},
          {"joules_per_token", running.watts > 0 ? Json(choice.joules_per_token()) : Json()},
          {"summary", summary_of(choice.candidate.plan)}};
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

void print_bound(const PlanAnswer& answer, double rate) {
  const UpperBound& bound = answer.bound;
  if (bound.kinds.size() < 2 || bound.tokens_per_second <= 0) return;
  if (bound.holds_for(rate)) {
    std::printf("  %.1f %% of the upper bound, the sum of the kinds alone (%.6g tokens/s):\n",
                100 * rate / bound.tokens_per_second, bound.tokens_per_second);
  } else {
    std::printf(
        "  the kinds alone reach %.6g tokens/s or more; their searches found too little to\n"
        "  be an upper bound (a longer --time-limit may find more):\n",
        bound.tokens_per_second);
  }
  for (const KindAlone& kind : bound.kinds) {
    std::printf("    %-12s %d device%s, %lld of the sequences: %.6g tokens/s%s\n",
                kind.kind.c_str(), kind.devices, kind.devices == 1 ? "" : "s",
                static_cast<long long>(kind.sequences), kind.tokens_per_second, note_of(kind));
  }
}

// What another cluster would reach beside the plan's rate.
void print_effect(const std::string& what, double tokens_per_second, double rate, bool proven) {
  if (tokens_per_second <= 0) {
    std::printf("  %s: no plan fits\n", what.c_str());
    return;
  }
  std::printf("  %s: %+.1f %%%s\n", what.c_str(), 100 * (tokens_per_second / rate - 1),
              proven ? "" : " or better (its search proved no limit)");
}

void print_left_out(const PlanAnswer& answer) {
  const double step = answer.result.best.front().prediction.step_seconds;
  for (const LeftOut& one : answer.left_out) {
    std::printf("  leaves out %d of %d %s: ", one.devices, one.available, one.kind.c_str());
    if (one.step_seconds_with > 0) {
      std::printf("the best plan found that has more of them takes %.1f %% longer\n",
                  100 * (one.step_seconds_with / step - 1));
    } else {
      std::printf("no plan that has more of them is among those found best\n");
    }
  }
}

void print_reasons(const PlanAnswer& answer) {
  const Candidate& winner = answer.result.best.front();
  const double rate = winner.prediction.tokens_per_second;
  std::printf("\nwhy the first (predicted):\n");
  std::printf("  bound by %s\n", binding_of(winner).c_str());
  std::printf("  balance: the least busy rank computes %.0f %% as long as the busiest\n",
              100 * balance_of(winner.prediction));
  print_left_out(answer);
  print_bound(answer, rate);
  const double base = answer.base_tokens_per_second;
  if (base < rate) {
    std::printf("  without %s: %+.1f %%; what follows is compared with that\n",
                winner.plan.schedule.c_str(), 100 * (base / rate - 1));
  }
  for (const WithoutKind& one : answer.without) {
    print_effect("without " + one.kind, one.tokens_per_second, base, one.proven);
  }
  for (const ChangeEffect& change : answer.changes) {
    if (!change.not_known.empty()) {
      std::printf("  with %s: not known: %s\n", change.what.c_str(), change.not_known.c_str());
      continue;
    }
    print_effect("with " + change.what, change.tokens_per_second, base, change.proven);
  }
  if (answer.result.tried_schedules) {
    std::printf("  zero-bubble and interleaved schedules were tried of the best plan alone\n");
  }
  if (!answer.result.complete && answer.result.bound_seconds <= 0) {
    std::printf("  the search ran out of time and proved no limit: --time-limit gives it more\n");
  } else if (!answer.result.complete) {
    std::printf("  the search did not prove it best: a better plan may be up to %.1f %% faster\n",
                100 * gap_of(answer.result));
  }
}

std::string devices_text(const std::map<std::string, int>& devices) {
  std::string all;
  for (const auto& [kind, count] : devices) {
    all += text(all.empty() ? "" : " + ", count, " ", kind);
  }
  return all;
}

void print_choices(const std::vector<Choice>& choices) {
  if (choices.empty()) return;
  std::printf("\nno other devices are better in every column (predicted):\n");
  std::printf("%14s %16s %16s  %s\n", "tokens/s", "usd/Mtoken", "joules/token", "devices");
  for (const Choice& one : choices) {
    const auto column = [](double value) {
      std::array<char, 32> line = {};
      std::snprintf(line.data(), line.size(), "%.6g", value);
      return value > 0 ? std::string(line.data()) : std::string("not stated");
    };
    std::printf("%14.6g %16s %16s  %s\n", one.tokens_per_second(),
                column(1e6 * one.usd_per_token()).c_str(), column(one.joules_per_token()).c_str(),
                devices_text(one.devices).c_str());
  }
}

// Ranks of a stage as "0-3" or "0,2".
std::string ranks_text(const std::vector<int>& ranks) {
  const bool run = ranks.back() - ranks.front() == static_cast<int>(ranks.size()) - 1 &&
                   std::is_sorted(ranks.begin(), ranks.end());
  if (ranks.size() > 1 && run) return text(ranks.front(), "-", ranks.back());
  std::string all;
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    if (at == 4) return all + ",...";
    all += text(at == 0 ? "" : ",", ranks[at]);
  }
  return all;
}

constexpr double kBarWidth = 30;

std::string stage_line(const Stage& stage, const Prediction& prediction) {
  const RankPrediction& rank = prediction.ranks.at(static_cast<std::size_t>(stage.ranks.front()));
  const double busy =
      prediction.step_seconds > 0 ? rank.compute_seconds / prediction.step_seconds : 0;
  std::string layers;
  for (const LayerRange& range : stage.layers) {
    layers += text(layers.empty() ? "" : ",", range.begin, "-", range.end);
  }
  std::string parts = text(stage.kind, " ranks ", ranks_text(stage.ranks));
  if (stage.tensor_parallel > 1) parts += text(" tp", stage.tensor_parallel);
  parts += text(" layers ", layers, stage.recompute.empty() ? "" : " recompute");
  const auto full = static_cast<std::size_t>(std::clamp(busy, 0.0, 1.0) * kBarWidth + 0.5);
  parts.resize(std::max<std::size_t>(parts.size(), 44), ' ');
  return parts + " |" + std::string(full, '#') +
         std::string(static_cast<std::size_t>(kBarWidth) - full, '.') +
         text("| ", static_cast<int>(100 * busy + 0.5), " %");
}

}  // namespace

Json json_of(const PlanAnswer& answer) {
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
  Json left_out = Json::array();
  for (const LeftOut& one : answer.left_out) {
    left_out.push_back({{"kind", one.kind},
                        {"devices", one.devices},
                        {"of", one.available},
                        {"step_seconds_with_more",
                         one.step_seconds_with > 0 ? Json(one.step_seconds_with) : Json()}});
  }
  Json changes = Json::array();
  for (const ChangeEffect& change : answer.changes) {
    changes.push_back({{"change", change.what},
                       {"tokens_per_second", change.tokens_per_second},
                       {"proven", change.proven},
                       {"not_known", change.not_known}});
  }
  Json pareto = Json::array();
  for (const Choice& choice : answer.choices) {
    pareto.push_back(json_of(choice));
  }
  return {{"predicted", true},
          {"binds", binding_of(winner)},
          {"balance", balance_of(winner.prediction)},
          {"upper_bound_tokens_per_second", answer.bound.tokens_per_second},
          {"upper_bound_holds", answer.bound.holds_for(winner.prediction.tokens_per_second)},
          {"kinds_alone", bound},
          {"base_tokens_per_second", answer.base_tokens_per_second},
          {"tokens_per_second_without", without},
          {"complete", answer.result.complete},
          {"tried_schedules", answer.result.tried_schedules},
          {"gap", gap_of(answer.result)},
          {"simulated", answer.result.simulated},
          {"left_out", left_out},
          {"changes", changes},
          {"pareto", pareto},
          {"plans", plans}};
}

std::string diagram_of(const Plan& plan, const Prediction& prediction) {
  std::string all;
  for (std::size_t first = 0; first < plan.pipelines.size();) {
    const Pipeline& pipeline = plan.pipelines[first];
    std::size_t next = first + 1;
    while (next < plan.pipelines.size() && alike_but_for_ranks(plan.pipelines[next], pipeline))
      ++next;
    all +=
        text("  pipeline ", first, next - first > 1 ? text(" to ", next - 1, ", alike") : "", ": ",
             pipeline.micro_batches, " micro-batches of ", pipeline.micro_batch_size, "\n");
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      all += text("    stage ", stage, "  ", stage_line(pipeline.stages[stage], prediction), "\n");
    }
    first = next;
  }
  return all;
}

void print_answer(const PlanAnswer& answer) {
  print_plans(answer.result);
  for (const std::string& kind : answer.emulated) {
    std::printf("emulated: the costs of %s are those of an emulated device\n", kind.c_str());
  }
  const Candidate& winner = answer.result.best.front();
  std::printf("\nwho does what, and how much of the step the first rank of a stage computes:\n%s",
              diagram_of(winner.plan, winner.prediction).c_str());
  print_reasons(answer);
  print_choices(answer.choices);
}

}  // namespace hethub
