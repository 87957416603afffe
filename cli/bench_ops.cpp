#include <algorithm>
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/bench_compute.h"
#include "hethub/base/text.h"
#include "hethub/plan/validate.h"
#include "hethub/profile/covered_ops.h"
#include "hethub/profile/peaks.h"

namespace hethub {
namespace {

struct Options {
  ComputeBench bench = {};
  std::vector<std::string> only = {};  // kinds of ops
  double seconds = 0.1;
};

Json row_of(const OpTime& time, const DevicePeaks& peaks) {
  const OpFacts facts = facts_of(time.op);
  Json row = {{"op", facts.kind},
              {"sizes", sizes_text(time.op)},
              {"dtype", name_of(time.op.dtype)},
              {"flops", facts.flops},
              {"bytes", facts.bytes()}};
  if (!time.problem.empty()) {
    row["problem"] = time.problem;
    return row;
  }
  const double flops_per_s = facts.flops / time.least;
  const double bytes_per_s = facts.bytes() / time.least;
  row["seconds"] = time.least;
  row["median_seconds"] = time.seconds;
  row["runs"] = time.runs;
  row["flops_per_s"] = flops_per_s;
  row["bytes_per_s"] = bytes_per_s;
  row["of_peak"] = std::max(flops_per_s / peaks.flops_per_s, bytes_per_s / peaks.bytes_per_s);
  return row;
}

void print(const Json& result) {
  std::printf("%s, %d threads; peaks: products %.1f GFLOP/s, memory %.2f GB/s\n",
              result["device"].get<std::string>().c_str(), result["threads"].get<int>(),
              result["peak_flops_per_s"].get<double>() / 1e9,
              result["peak_bytes_per_s"].get<double>() / 1e9);
  std::printf("%-20s %-52s %10s %9s %8s %7s\n", "op", "sizes", "us", "GFLOP/s", "GB/s", "% peak");
  for (const Json& row : result["ops"]) {
    std::printf("%-20s %-52s ", row["op"].get<std::string>().c_str(),
                row["sizes"].get<std::string>().c_str());
    if (row.contains("problem")) {
      std::printf("not measured: %s\n", row["problem"].get<std::string>().c_str());
      continue;
    }
    std::printf("%10.1f %9.1f %8.2f %7.1f\n", row["seconds"].get<double>() * 1e6,
                row["flops_per_s"].get<double>() / 1e9, row["bytes_per_s"].get<double>() / 1e9,
                row["of_peak"].get<double>() * 100);
  }
}

int run(const Options& options, bool json) {
  const ComputeBench& bench = options.bench;
  const ModelConfig model = read_model(bench.model);
  const Plan plan = one_rank_plan(bench, model);
  require_valid(plan, model);
  const auto backend = open_device(bench);
  const OpTimerOptions timing{.seconds_per_op = options.seconds};
  DevicePeaks peaks =
      measure_peaks(*backend, dtype_named(bench.dtype).value_or(DType::kF32), timing);
  if (bench.peak_gflops > 0) peaks.flops_per_s = bench.peak_gflops * 1e9;
  std::vector<Op> ops = distinct_ops({plan}, model);
  std::erase_if(ops, [&](const Op& op) {
    const auto& only = options.only;
    return !only.empty() && std::find(only.begin(), only.end(), facts_of(op).kind) == only.end();
  });
  Json result = {{"backend", bench.backend},
                 {"device", backend->info().name},
                 {"driver", backend->info().driver},
                 {"threads", bench.threads},
                 {"peak_flops_per_s", peaks.flops_per_s},
                 {"peak_bytes_per_s", peaks.bytes_per_s},
                 {"ops", Json::array()}};
  for (const OpTime& time : time_ops(*backend, ops, timing)) {
    result["ops"].push_back(row_of(time, peaks));
  }
  return show(result, json, print);
}

}  // namespace

void add_bench_ops(CLI::App& bench, VerbCall& call) {
  CLI::App& command = *bench.add_subcommand("ops", "time each op of a model's training step");
  const auto options = std::make_shared<Options>();
  add_compute_options(command, options->bench);
  command.add_option("--only", options->only, "these kinds of ops, as linear,attention")
      ->delimiter(',');
  command.add_option("--seconds", options->seconds, "for each op")
      ->check(CLI::Range(0.001, 1e3))
      ->capture_default_str();
  command.footer(
      "Each op of the step once for each shape: the fastest of many batches of runs, operands no\n"
      "more in cache than in a step. % peak: of the fastest matrix product or of the memory's\n"
      "rate, whichever the op is nearer to.\n"
      "Example:\n  hethub bench ops --model config.json --threads 2 --only linear,attention");
  on_chosen(command, call, "bench ops", options, run);
}

}  // namespace hethub
