#include <cmath>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/report/page.h"

namespace hethub {
namespace {

struct Options {
  std::string run = ".";
  std::string output = {};
  std::string plan = {};
  std::string model = {};
  std::string cluster = {};
  std::string costs = {};
  std::string log = {};
  std::string trace = {};
  std::string predicted_trace = {};
};

ReportFiles files_of(const Options& options) {
  ReportFiles files = files_of_run(options.run);
  const auto name = [](ReportFile& file, const std::string& path) {
    if (!path.empty()) file = {path, true};
  };
  name(files.plan, options.plan);
  name(files.model, options.model);
  name(files.cluster, options.cluster);
  name(files.costs, options.costs);
  name(files.log, options.log);
  name(files.trace, options.trace);
  name(files.predicted_trace, options.predicted_trace);
  return files;
}

// Numbers that are none have no place in JSON.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const ReportData& data, const RunSummary& s, const std::string& page) {
  return {{"page", page},
          {"plan_hash", data.plan_hash},
          {"emulated", !data.emulated_kinds.empty() || (data.log && data.log->emulated)},
          {"steps", s.steps},
          {"first_loss", number(s.first_loss)},
          {"last_loss", number(s.last_loss)},
          {"first_held_out_loss", number(s.first_held_out_loss)},
          {"last_held_out_loss", number(s.last_held_out_loss)},
          {"step_seconds", number(s.step_seconds)},
          {"tokens_per_second", number(s.tokens_per_second)},
          {"predicted_step_seconds", number(s.predicted_step_seconds)},
          {"prediction_error", number(s.prediction_error)},
          {"traced_step_seconds", number(s.traced_step_seconds)},
          {"bubble_fraction", number(s.measured_bubble)},
          {"predicted_bubble_fraction", number(s.predicted_bubble)},
          {"missing", data.missing}};
}

int run(const Options& options, bool json) {
  const ReportData data = read_report_data(files_of(options));
  const RunSummary summary = summary_of(data);
  write_file(options.output, report_page(data, summary));
  if (json) {
    std::cout << json_of(data, summary, options.output).dump() << '\n';
    return 0;
  }
  for (const std::string& line : data.missing) {
    std::cout << line << '\n';
  }
  std::cout << "wrote " << options.output << '\n';
  return 0;
}

}  // namespace

void add_report(CLI::App& app, VerbCall& call) {
  auto options = std::make_shared<Options>();
  CLI::App& verb = *app.add_subcommand("report", "show a run as one HTML page");
  verb.footer("Example:\n  hethub report run -o page.html");
  verb.add_option("run", options->run, "the folder that the run left its files in")
      ->capture_default_str();
  verb.add_option("-o,--output", options->output, "the page to write")->required();
  verb.add_option("--plan", options->plan, "if not RUN/plan.json");
  verb.add_option("--model", options->model, "config.json, if not the one the plan names");
  verb.add_option("--cluster", options->cluster, "if not RUN/cluster.yaml");
  verb.add_option("--costs", options->costs, "if not RUN/costs.json");
  verb.add_option("--log", options->log, "of train --log-json, if not RUN/log.jsonl");
  verb.add_option("--trace", options->trace, "of train --trace, if not RUN/trace.json");
  verb.add_option("--predicted-trace", options->predicted_trace,
                  "of predict --trace, if not RUN/predicted-trace.json");
  on_chosen(verb, call, "report", std::move(options), run);
}

}  // namespace hethub
