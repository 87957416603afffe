#include "cli/predict_validate.h"

#include <cstdio>
#include <functional>
#include <iostream>

#include <nlohmann/json.hpp>

#include "hethub/base/error.h"
#include "hethub/base/json.h"
#include "hethub/predict/calibration.h"
#include "hethub/predict/validation.h"

namespace hethub {
namespace {

PublishedRuns read_all(const std::vector<std::string>& files) {
  PublishedRuns all;
  for (const std::string& file : files) {
    PublishedRuns some = parse_published_runs(read_document(file), file);
    std::move(some.runs.begin(), some.runs.end(), std::back_inserter(all.runs));
    std::move(some.unpriced.begin(), some.unpriced.end(), std::back_inserter(all.unpriced));
  }
  return all;
}

// FNV-1a: whole families fall on one side, alike on every machine.
bool is_held_out(const std::string& family) {
  std::uint32_t hash = 0x811c9dc5U;
  for (const char letter : family) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x01000193U;
  }
  return hash % 3 == 0;
}

Json json_of(const ErrorSummary& summary) {
  return {{"rows", summary.rows},
          {"mean_abs_error", summary.mean_abs_error},
          {"median_abs_error", summary.median_abs_error},
          {"max_abs_error", summary.max_abs_error},
          {"mean_error", summary.mean_error},
          {"least_error", summary.least_error},
          {"rank_correlation", summary.rank_correlation}};
}

Json json_of(const RunMemory& memory) {
  return {{"stage", memory.stage},           {"predicted_bytes", memory.total()},
          {"states_bytes", memory.states},   {"activations_bytes", memory.activations},
          {"working_bytes", memory.working}, {"fixed_bytes", memory.fixed}};
}

Json json_of(const Validation& validation, const Calibration* calibration) {
  Json rows = Json::array();
  for (const ValidatedRun& row : validation.rows) {
    rows.push_back({{"id", row.run.id},
                    {"part", row.run.part},
                    {"measured_s", row.run.measured_s},
                    {"predicted_s", row.predicted.step_s},
                    {"error", row.error()},
                    {"pipeline_s", row.predicted.pipeline_s},
                    {"exposed_s", row.predicted.exposed_s},
                    {"optimizer_s", row.predicted.optimizer_s}});
    if (row.run.measured_bytes <= 0) continue;
    rows.back()["memory"] = json_of(row.memory);
    rows.back()["memory"]["measured_bytes"] = row.run.measured_bytes;
  }
  Json unpriced = Json::array();
  for (const UnpricedRun& row : validation.unpriced) {
    unpriced.push_back({{"id", row.id}, {"part", row.part}, {"why", row.why}});
  }
  Json summary = Json::object();
  for (const auto& [part, one] : validation.summary) {
    summary[part] = json_of(one);
  }
  Json memory = Json::object();
  for (const auto& [part, one] : validation.memory) {
    memory[part] = json_of(one);
  }
  Json all = {{"predicted", true},
              {"rows", rows},
              {"memory", memory},
              {"unpriced", unpriced},
              {"summary", summary},
              {"choice",
               {{"models", validation.choice.models},
                {"mean_ratio", validation.choice.mean_ratio},
                {"worst_ratio", validation.choice.worst_ratio}}}};
  if (calibration == nullptr) return all;
  Json constants = Json::array();
  for (const FittedConstant& constant : calibration->constants) {
    constants.push_back({{"name", constant.name},
                         {"before", constant.before},
                         {"after", constant.after},
                         {"low", constant.low},
                         {"high", constant.high}});
  }
  all["fitted"] = {{"rows", calibration->rows},
                   {"error_before", calibration->error_before},
                   {"error_after", calibration->error_after},
                   {"constants", constants}};
  return all;
}

void print(const Calibration& calibration) {
  std::printf(
      "fitted on %d rows: the mean over sources of their mean error, from %.1f %% to %.1f %%\n\n",
      calibration.rows, 100 * calibration.error_before, 100 * calibration.error_after);
  std::printf("| constant | before | fitted | at most a tenth worse within |\n|---|---|---|---|\n");
  for (const FittedConstant& one : calibration.constants) {
    const double unit = one.name.ends_with("_us") ? 1e6 : 1;
    std::printf("| %s | %.4g | %.4g | %.4g to %.4g |\n", one.name.c_str(), one.before * unit,
                one.after * unit, one.low * unit, one.high * unit);
  }
  std::printf("\n");
}

void print(const Validation& validation) {
  std::printf("| source | rows | mean error | median | largest | with sign | rank correlation |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const auto& [part, one] : validation.summary) {
    std::printf("| %s | %d | %.1f %% | %.1f %% | %.1f %% | %+.1f %% | %.2f |\n", part.c_str(),
                one.rows, 100 * one.mean_abs_error, 100 * one.median_abs_error,
                100 * one.max_abs_error, 100 * one.mean_error, one.rank_correlation);
  }
  std::printf(
      "\nchoosing by prediction among %d models with four plans or more: the chosen plan takes"
      " %.3f of the best one's time (mean), %.3f at worst\n",
      validation.choice.models, validation.choice.mean_ratio, validation.choice.worst_ratio);
  std::printf(
      "\n| memory | rows | mean error | largest | lowest | with sign "
      "|\n|---|---|---|---|---|---|\n");
  for (const auto& [part, one] : validation.memory) {
    std::printf("| %s | %d | %.1f %% | %.1f %% | %+.1f %% | %+.1f %% |\n", part.c_str(), one.rows,
                100 * one.mean_abs_error, 100 * one.max_abs_error, 100 * one.least_error,
                100 * one.mean_error);
  }
  std::map<std::pair<std::string, std::string>, int> reasons;
  for (const UnpricedRun& row : validation.unpriced) {
    ++reasons[{row.part, row.why}];
  }
  std::printf("\n%zu rows are not priced:\n", validation.unpriced.size());
  for (const auto& [reason, count] : reasons) {
    std::printf("  %-16s %4d  %s\n", reason.first.c_str(), count, reason.second.c_str());
  }
}

// Splits the runs into those to fit on and those to report on.
void split(const PublishedRuns& all, const std::function<bool(const PublishedRun&)>& reported,
           PublishedRuns& fit, PublishedRuns& report) {
  for (const PublishedRun& run : all.runs) {
    (reported(run) ? report : fit).runs.push_back(run);
  }
}

}  // namespace

int run_validate(const ValidateArguments& arguments, bool json) {
  const PublishedRuns all = read_all(arguments.files);
  PublishedRuns fit = all;
  PublishedRuns report = all;
  const bool refits = arguments.calibrate || arguments.held_out || !arguments.leave_out.empty();
  if (arguments.held_out) {
    fit = report = {};
    split(
        all, [](const PublishedRun& run) { return is_held_out(run.family); }, fit, report);
  } else if (!arguments.leave_out.empty()) {
    fit = report = {};
    split(
        all, [&](const PublishedRun& run) { return run.part == arguments.leave_out; }, fit, report);
    if (report.runs.empty()) {
      throw Error(ErrorCode::kUsage, {.what = "--leave-one-out",
                                      .found = arguments.leave_out,
                                      .expected = "a source with runs",
                                      .fix = "give the name as the table spells it"});
    }
  }
  Calibration calibration{.sheets = known_sheets()};
  const bool afresh = arguments.held_out || !arguments.leave_out.empty();
  if (refits) {
    calibration =
        calibrate(calibration.sheets, fit, {.afresh = afresh, .rounds = arguments.rounds});
  }
  RunPricer pricer(calibration.sheets);
  const Validation validation = validate_runs(report, pricer);
  if (json) {
    std::cout << json_of(validation, refits ? &calibration : nullptr).dump() << '\n';
    return 0;
  }
  if (refits) print(calibration);
  print(validation);
  return 0;
}

}  // namespace hethub
