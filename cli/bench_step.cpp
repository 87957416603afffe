#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "cli/bench_compute.h"
#include "hethub/base/allocations.h"
#include "hethub/base/clock.h"
#include "hethub/base/text.h"
#include "hethub/comm/rendezvous.h"
#include "hethub/plan/validate.h"
#include "hethub/predict/layer_activations.h"
#include "hethub/profile/metered_backend.h"
#include "hethub/profile/peaks.h"
#include "hethub/train/trainer.h"

namespace hethub {
namespace {

struct Options {
  ComputeBench bench = {};
  int steps = 5;
  int warmup = 2;
  int metered = 3;
};

// Tokens without meaning, each a function of its position in the stream.
class RandomSamples : public SampleSource {
 public:
  RandomSamples(std::int64_t length, std::int64_t vocab) : length_(length), vocab_(vocab) {}
  std::int64_t sequence_length() const override { return length_; }
  std::int64_t samples_per_epoch() const override { return std::int64_t{1} << 32; }
  std::int64_t id_of(std::int64_t sample) const override { return sample; }
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override {
    for (std::int64_t i = 0; i < length_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      tokens[at] = token(sample * (length_ + 1) + i);
      labels[at] = token(sample * (length_ + 1) + i + 1);
    }
  }

 private:
  std::int32_t token(std::int64_t at) const {
    const auto mixed = static_cast<std::uint64_t>(at) * 0x9E3779B97F4A7C15U;
    return static_cast<std::int32_t>((mixed >> 33U) % static_cast<std::uint64_t>(vocab_));
  }

  std::int64_t length_;
  std::int64_t vocab_;
};

// What this process has used so far.
struct Usage {
  double seconds = 0;
  double cpu_seconds = 0;
  double page_faults = 0;
  double allocations = 0;  // operator new's
  double waits = 0;        // context switches of its own will
  double preemptions = 0;  // and those that the system forced on it
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

Usage usage_now() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return {.seconds = seconds_now(),
          .cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
          .page_faults = static_cast<double>(used.ru_minflt + used.ru_majflt),
          .allocations = static_cast<double>(allocation_count()),
          .waits = static_cast<double>(used.ru_nvcsw),
          .preemptions = static_cast<double>(used.ru_nivcsw)};
}

Json json_between(const Usage& from, const Usage& to) {
  return {{"seconds", to.seconds - from.seconds},
          {"cpu_seconds", to.cpu_seconds - from.cpu_seconds},
          {"page_faults", to.page_faults - from.page_faults},
          {"allocations", to.allocations - from.allocations},
          {"waits", to.waits - from.waits},
          {"preemptions", to.preemptions - from.preemptions}};
}

std::vector<double> column(const Json& steps, const char* name) {
  std::vector<double> values;
  for (const Json& step : steps) {
    values.push_back(step[name].get<double>());
  }
  return values;
}

double least_of(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

Json rates(double seconds, double flops, double bytes, const DevicePeaks& peaks) {
  return {{"seconds", seconds},
          {"flops_per_s", flops / seconds},
          {"bytes_per_s", bytes / seconds},
          {"of_peak",
           std::max(flops / seconds / peaks.flops_per_s, bytes / seconds / peaks.bytes_per_s)}};
}

// Each op's share of a step: its fastest run, as often as it runs.
Json shapes_of(const std::vector<MeteredOp>& ops, int steps, const DevicePeaks& peaks) {
  Json shapes = Json::array();
  for (const MeteredOp& one : ops) {
    if (one.runs == 0) continue;
    const OpFacts facts = facts_of(one.op);
    const double runs = static_cast<double>(one.runs) / steps;
    Json row = {{"op", facts.kind}, {"sizes", sizes_text(one.op)}, {"runs", runs}};
    row.update(rates(one.least * runs, facts.flops * runs, facts.bytes() * runs, peaks));
    row["flops"] = facts.flops * runs;
    row["bytes"] = facts.bytes() * runs;
    row["mean_seconds"] = one.seconds / steps;
    shapes.push_back(std::move(row));
  }
  return shapes;
}

Json classes_of(const Json& shapes, const DevicePeaks& peaks) {
  std::map<std::string, std::array<double, 4>> sums;
  for (const Json& shape : shapes) {
    auto& sum = sums[shape["op"]];
    const char* names[] = {"runs", "seconds", "flops", "bytes"};
    for (std::size_t at = 0; at < sum.size(); ++at) {
      sum.at(at) += shape[names[at]].get<double>();
    }
  }
  std::vector<Json> rows;
  for (const auto& [name, sum] : sums) {
    rows.push_back({{"op", name}, {"runs", sum[0]}});
    rows.back().update(rates(sum[1], sum[2], sum[3], peaks));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a["seconds"].get<double>() > b["seconds"].get<double>();
  });
  return rows;
}

DevicePeaks better_of(const DevicePeaks& a, const DevicePeaks& b) {
  return {std::max(a.flops_per_s, b.flops_per_s), std::max(a.bytes_per_s, b.bytes_per_s)};
}

Json summary_of(const Json& steps, const ComputeBench& bench, const ModelConfig& model,
                const DevicePeaks& peaks) {
  const double tokens = static_cast<double>(bench.sequence_length) * bench.batch;
  const double seconds = least_of(column(steps, "seconds"));
  const double flops = tokens * model_flops_per_token(model, bench.sequence_length);
  Json summary = {{"tokens", tokens},
                  {"step_seconds", seconds},
                  {"median_step_seconds", median_of(column(steps, "seconds"))},
                  {"cpu_seconds", least_of(column(steps, "cpu_seconds"))},
                  {"tokens_per_s", tokens / seconds},
                  {"model_flops_per_s", flops / seconds},
                  {"peak_flops_per_s", peaks.flops_per_s},
                  {"peak_bytes_per_s", peaks.bytes_per_s},
                  {"gemm_fraction", flops / seconds / peaks.flops_per_s}};
  for (const char* name : {"page_faults", "allocations", "waits", "preemptions"}) {
    summary[name] = median_of(column(steps, name));
  }
  return summary;
}

Json layer_of(const ComputeBench& bench, const ModelConfig& model) {
  const LayerActivations layer =
      layer_activations(model, {.sequences = bench.batch,
                                .sequence_length = bench.sequence_length,
                                .dtype = dtype_named(bench.dtype).value_or(DType::kF32)});
  return {{"kept_bytes", layer.kept_bytes},
          {"formula_bytes", layer.formula_bytes},
          {"statistics_bytes", layer.statistics_bytes}};
}

Json measure(const Options& options) {
  const ComputeBench& bench = options.bench;
  const ModelConfig model = read_model(bench.model);
  const Plan plan = one_rank_plan(bench, model);
  require_valid(plan, model);
  const auto device = open_device(bench);
  const auto messenger = join_world({});
  MeteredBackend backend(*device);
  Trainer trainer({.plan = plan, .model = model, .steps = 1}, backend, *messenger);
  const RandomSamples samples(bench.sequence_length, model.vocab_size);
  std::int64_t step = 0;
  const auto take = [&] {
    trainer.worker().run_step(samples, step, step + 1);
    ++step;
  };
  for (int warm = 0; warm < options.warmup; ++warm) {
    take();
  }
  DevicePeaks peaks{.flops_per_s = bench.peak_gflops * 1e9};
  const OpTimerOptions brief{.seconds_per_op = 0.1, .rounds = 2};
  const bool measures = bench.peak_gflops <= 0;
  const DType dtype = dtype_named(bench.dtype).value_or(DType::kF32);
  if (measures) peaks = measure_peaks(*device, dtype, brief);
  Json steps = Json::array();
  for (int timed = 0; timed < options.steps; ++timed) {
    const Usage before = usage_now();
    take();
    steps.push_back(json_between(before, usage_now()));
  }
  backend.meter(true);
  for (int metered = 0; metered < options.metered; ++metered) {
    take();
  }
  // Again: what disturbed one of the two measurements may have left the other alone.
  if (measures) peaks = better_of(peaks, measure_peaks(*device, dtype, brief));
  Json result = {{"backend", bench.backend},
                 {"device", device->info().name},
                 {"driver", device->info().driver},
                 {"dtype", bench.dtype},
                 {"threads", bench.threads},
                 {"parameters", parameter_count(model)},
                 {"arena_bytes", trainer.rank_plan().memory.arena_bytes},
                 {"peak_resident_bytes", peak_resident_bytes()},
                 {"layer_activations", layer_of(bench, model)}};
  result.update(summary_of(steps, bench, model, peaks));
  const Json shapes = shapes_of(backend.ops(), options.metered, peaks);
  result["steps"] = steps;
  result["classes"] = classes_of(shapes, peaks);
  result["shapes"] = shapes;
  return result;
}

void print_memory(const Json& result) {
  const auto mib = [](const Json& bytes) { return bytes.get<double>() / 0x1p20; };
  std::printf("arena %.1f MiB, peak resident %.1f MiB\n", mib(result["arena_bytes"]),
              mib(result["peak_resident_bytes"]));
  const Json& layer = result["layer_activations"];
  std::printf("a layer keeps %.2f MiB for its backward pass", mib(layer["kept_bytes"]));
  if (layer["formula_bytes"].get<double>() > 0) {
    std::printf("; by Megatron's formula %.2f MiB and %.2f MiB of statistics",
                mib(layer["formula_bytes"]), mib(layer["statistics_bytes"]));
  }
  std::printf("\n\n");
}

void print(const Json& result) {
  const auto number = [&](const char* name) { return result[name].get<double>(); };
  std::printf("%s on %s, %.0f threads: %.2f M parameters, %.0f tokens a step\n",
              result["backend"].get<std::string>().c_str(),
              result["device"].get<std::string>().c_str(), number("threads"),
              number("parameters") / 1e6, number("tokens"));
  std::printf("fastest step %.4f s (median %.4f, processor time %.4f): %.0f tokens/s\n",
              number("step_seconds"), number("median_step_seconds"), number("cpu_seconds"),
              number("tokens_per_s"));
  std::printf("model %.1f GFLOP/s, %.1f %% of the fastest product's %.1f; memory %.2f GB/s\n",
              number("model_flops_per_s") / 1e9, number("gemm_fraction") * 100,
              number("peak_flops_per_s") / 1e9, number("peak_bytes_per_s") / 1e9);
  std::printf("a step: %.0f page faults, %.0f allocations, %.0f waits, %.0f preemptions\n",
              number("page_faults"), number("allocations"), number("waits"), number("preemptions"));
  print_memory(result);
  std::printf("%-20s %6s %10s %7s %9s %8s %7s\n", "ops", "runs", "ms", "% step", "GFLOP/s", "GB/s",
              "% peak");
  double sum = 0;
  for (const Json& row : result["classes"]) {
    const double seconds = row["seconds"].get<double>();
    sum += seconds;
    std::printf("%-20s %6.0f %10.3f %7.1f %9.1f %8.2f %7.1f\n",
                row["op"].get<std::string>().c_str(), row["runs"].get<double>(), seconds * 1e3,
                seconds / number("step_seconds") * 100, row["flops_per_s"].get<double>() / 1e9,
                row["bytes_per_s"].get<double>() / 1e9, row["of_peak"].get<double>() * 100);
  }
  std::printf("%-20s %6s %10.3f %7.1f\n", "all ops", "", sum * 1e3,
              sum / number("step_seconds") * 100);
}

int run(const Options& options, bool json) {
  const Json result = measure(options);
  return show(result, json, print);
}

}  // namespace

void add_bench_step(CLI::App& bench, VerbCall& call) {
  CLI::App& command = *bench.add_subcommand("step", "time a training step and what it consists of");
  const auto options = std::make_shared<Options>();
  add_compute_options(command, options->bench);
  command.add_option("--steps", options->steps, "timed ones, without metering their ops")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--warmup", options->warmup, "steps before them")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--metered", options->metered, "steps after them, whose ops are timed")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.footer(
      "Forward, backward, clipping and AdamW of one rank, on tokens without meaning. The fastest\n"
      "step counts; an op's time is its fastest run, as often as it runs, with the device idle\n"
      "before and after. Model FLOPs: 6 a parameter and token, and attention counted in full.\n"
      "Counts of a step are medians; allocations are operator new's that reach malloc.\n"
      "Example:\n  hethub bench step --model config.json --threads 2 --cores 0,1 --json");
  on_chosen(command, call, "bench step", options, run);
}

}  // namespace hethub
