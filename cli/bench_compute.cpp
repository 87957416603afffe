#include "cli/bench_compute.h"

#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/train_setup.h"
#include "hethub/base/error.h"

namespace hethub {

void add_compute_options(CLI::App& command, ComputeBench& bench) {
  command.add_option("--model", bench.model, "config.json of the model")->required();
  command.add_option("--backend", bench.backend, "or a kind of --cluster")->capture_default_str();
  command.add_option("--cluster", bench.cluster, "says which backend opens the kind");
  command.add_option("--dtype", bench.dtype, "what ops compute in")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", bench.threads, "compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--cores", bench.cores, "one for each thread; default: any")->delimiter(',');
  command.add_option("--sequence-length", bench.sequence_length, "tokens of a sequence")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("--batch", bench.batch, "sequences of a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--micro-batch", bench.micro_batch, "sequences at once; default: the batch")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--peak", bench.peak_gflops, "GFLOP/s to hold against; default: measured")
      ->check(CLI::Range(1e-3, 1e9));
}

std::unique_ptr<Backend> open_device(const ComputeBench& bench) {
  return open_kind(bench.backend, bench.cluster, {.threads = bench.threads, .cores = bench.cores});
}

Plan one_rank_plan(const ComputeBench& bench, const ModelConfig& model) {
  const int micro_batch = bench.micro_batch > 0 ? bench.micro_batch : bench.batch;
  if (bench.batch % micro_batch != 0) {
    throw Error(ErrorCode::kUsage, {.what = "--micro-batch",
                                    .found = text(micro_batch),
                                    .expected = text("a divisor of --batch, ", bench.batch),
                                    .fix = "choose one, or another batch"});
  }
  Plan plan{
      .sequence_length = bench.sequence_length, .global_batch = bench.batch, .dtype = bench.dtype};
  plan.pipelines.push_back(
      {.micro_batch_size = micro_batch,
       .micro_batches = bench.batch / micro_batch,
       .stages = {{.kind = bench.backend, .ranks = {0}, .layers = {{0, model.layers}}}}});
  return plan;
}

int show(const Json& result, bool json, void (*print)(const Json& result)) {
  if (json) {
    std::cout << result.dump(1) << '\n';
  } else {
    print(result);
  }
  return 0;
}

}  // namespace hethub
