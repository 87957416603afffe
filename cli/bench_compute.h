#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "hethub/accel/backend.h"
#include "hethub/base/json.h"
#include "hethub/model/config.h"
#include "hethub/plan/plan.h"

namespace hethub {

/// What `bench ops` and `bench step` run: one rank of a model on one device.
struct ComputeBench {
  std::string model = {};
  std::string backend = "cpu";
  std::string cluster = {};
  std::string dtype = "f32";  ///< what ops compute in: f32 or bf16
  int threads = 1;
  std::vector<int> cores = {};
  std::int64_t sequence_length = 256;
  int batch = 8;           ///< sequences of a step
  int micro_batch = 0;     ///< sequences of a micro-batch; 0: all of the batch
  double peak_gflops = 0;  ///< 0: measured
};

/// Adds the options that set it.
void add_compute_options(CLI::App& command, ComputeBench& bench);

/// Opens the device.
std::unique_ptr<Backend> open_device(const ComputeBench& bench);

/// The plan of one rank that takes such steps. Throws kUsage if the micro-batches do not make up
/// the batch.
Plan one_rank_plan(const ComputeBench& bench, const ModelConfig& model);

/// Prints what was measured: as JSON, or by `print` for people. Returns the exit status, 0.
int show(const Json& result, bool json, void (*print)(const Json& result));

// The verbs of bench that time ops and steps.
void add_bench_ops(CLI::App& bench, VerbCall& call);
void add_bench_step(CLI::App& bench, VerbCall& call);

}  // namespace hethub
