#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/flight.h"
#include "cli/meeting.h"
#include "cli/train_setup.h"
#include "cli/verb.h"
#include "cli/verify_table.h"
#include "hethub/base/error.h"
#include "hethub/comm/rendezvous.h"
#include "hethub/data/fixed_batches.h"
#include "hethub/launch/launch.h"
#include "hethub/model/file_parts.h"
#include "hethub/plan/plan_file.h"
#include "hethub/plan/validate.h"
#include "hethub/train/trainer.h"

namespace hethub {
namespace {

struct Options {
  std::string folder = {};
  std::string backend = {};
  std::string plan = {};
  std::string cluster = {};
  std::string reference = "fp64";
  MeetingOptions meeting = {};
  std::string dtype = "f32";  ///< of the plan that a backend gets
  std::optional<double> tolerance_loss = {};
  std::optional<double> tolerance_norm = {};
  std::optional<double> tolerance_losses = {};
  BackendOptions device = {};
};

// What the folder holds, and the plan that runs it.
struct Job {
  ModelConfig model = {};
  ExpectedNumbers expected = {};
  Plan plan = {};
};

Plan plan_for(const Options& options, const ModelConfig& model, const FixedBatches& batches) {
  Plan plan;
  if (options.plan.empty()) {
    Stage stage{.kind = options.backend, .ranks = {0}, .layers = {{0, model.layers}}};
    plan.pipelines.push_back({.micro_batch_size = static_cast<int>(batches.batch_size()),
                              .micro_batches = 1,
                              .stages = {std::move(stage)}});
    plan.sequence_length = batches.sequence_length();
    plan.global_batch = batches.batch_size();
    plan.dtype = options.dtype;
    return plan;
  }
  plan = read_plan(options.plan);
  const bool fits = plan.sequence_length == batches.sequence_length() &&
                    plan.global_batch == batches.batch_size();
  if (!fits) {
    throw Error(ErrorCode::kInvalidPlan,
                {.what = options.plan,
                 .found = text(plan.global_batch, " sequences of ", plan.sequence_length),
                 .expected = text(batches.batch_size(), " sequences of ", batches.sequence_length(),
                                  ", as the folder's batches"),
                 .fix = "set global_batch and sequence_length, and the micro-batches with them"});
  }
  return plan;
}

// What is asked for, else what the plan's dtype can give.
VerifyTolerances tolerances_of(const Options& options, const Plan& plan) {
  VerifyTolerances tolerances = plan.dtype == "bf16" ? kBf16Tolerances : VerifyTolerances{};
  tolerances.loss = options.tolerance_loss.value_or(tolerances.loss);
  tolerances.gradient_norm = options.tolerance_norm.value_or(tolerances.gradient_norm);
  tolerances.losses = options.tolerance_losses.value_or(tolerances.losses);
  return tolerances;
}

// Under which name a tensor's gradient is compared: that of the file's tensor which holds it, with
// others perhaps, or its own where several of the file's make it up.
std::string compared_name(const ModelConfig& model, const ModelTensor& tensor) {
  const std::vector<FilePart> parts = file_parts_of(model, tensor);
  return parts.size() == 1 ? parts.front().name : tensor.name;
}

// The norms by compared_name.
std::map<std::string, double> norms_to_compare(const std::map<std::string, double>& norms,
                                               const ModelConfig& model,
                                               const std::filesystem::path& file) {
  std::map<std::string, double> compared;
  for (const ModelTensor& tensor : tensors_of(model)) {
    double squares = 0;
    for (const FilePart& part : file_parts_of(model, tensor)) {
      const auto found = norms.find(part.name);
      if (found == norms.end()) {
        throw Error(ErrorCode::kCorruptData, {.what = file.string() + ": param_grad_norms",
                                              .found = "nothing for " + part.name,
                                              .expected = "a norm of each of the model's tensors",
                                              .fix = "make the reference of this config.json"});
      }
      squares += found->second * found->second;
    }
    compared[compared_name(model, tensor)] = std::sqrt(squares);
  }
  return compared;
}

Job read_job(const Options& options) {
  const std::filesystem::path folder = options.folder;
  Job job{.model = read_model(folder),
          .expected = read_expected(folder / "expected.json", options.reference)};
  job.expected.gradient_norms =
      norms_to_compare(job.expected.gradient_norms, job.model, folder / "expected.json");
  job.expected.optimizer.total_steps = std::ssize(job.expected.losses);
  const FixedBatches batches(folder / "tokens.json", job.model.vocab_size);
  job.plan = plan_for(options, job.model, batches);
  require_valid(job.plan, job.model);
  require_backends(job.plan.kind_of_rank(), options.cluster);
  return job;
}

// The norm of each tensor's gradient of the mean loss, from the pieces that all ranks own.
std::map<std::string, double> tensor_norms(Trainer& trainer, const ModelConfig& model,
                                           const StepResult& result) {
  std::map<std::string, std::size_t> index;
  for (const ModelTensor& tensor : tensors_of(model)) {
    index.emplace(tensor.name, index.size());
  }
  std::vector<double> sums(index.size(), 0.0);
  const auto& owned = trainer.rank_plan().owned;
  for (std::size_t piece = 0; piece < owned.size(); ++piece) {
    sums[index.at(owned[piece].slice.tensor.name)] += result.square_sums[piece];
  }
  trainer.worker().world().all_reduce_host(sums, trainer.worker().deadline());
  std::map<std::string, double> squares;
  for (const ModelTensor& tensor : tensors_of(model)) {
    squares[compared_name(model, tensor)] += sums[index.at(tensor.name)];
  }
  std::map<std::string, double> norms;
  for (const auto& [name, sum] : squares) {
    norms[name] = std::sqrt(sum) / result.tokens;
  }
  return norms;
}

FoundNumbers run_steps(const Options& options, const Job& job, Messenger& messenger) {
  const std::string kind = job.plan.kind_of_rank().at(static_cast<std::size_t>(messenger.rank()));
  const auto backend = open_kind(kind, options.cluster, options.device);
  const FixedBatches batches(std::filesystem::path(options.folder) / "tokens.json",
                             job.model.vocab_size);
  Trainer trainer({.plan = job.plan,
                   .model = job.model,
                   .optimizer = job.expected.optimizer,
                   .start = {.init_from = options.folder},
                   .steps = std::ssize(job.expected.losses)},
                  *backend, messenger);
  FoundNumbers found;
  const std::int64_t steps = std::min(std::ssize(job.expected.losses), batches.steps());
  for (std::int64_t step = 0; step < steps; ++step) {
    const StepResult& result = trainer.worker().run_step(batches, step, step + 1);
    if (step == 0) {
      found.loss = result.loss;
      found.gradient_norm = result.gradient_norm;
      found.gradient_norms = tensor_norms(trainer, job.model, result);
    }
    found.losses.push_back(result.loss);
  }
  return found;
}

int run_rank(const Options& options, const Job& job, RendezvousOptions meeting, bool json) {
  require_ranks(job.plan, meeting.world_size);
  meeting.plan_hash = plan_hash(job.plan);
  int status = 0;
  run_in_world(meeting, options.meeting.flight, [&](Messenger& messenger) {
    const FoundNumbers found = run_steps(options, job, messenger);
    if (messenger.rank() != 0) return;
    const std::string title = text("verify ", options.folder, " on ",
                                   options.plan.empty() ? options.backend : "plan " + options.plan,
                                   " in ", job.plan.dtype);
    const auto rows = compare(job.expected, found, tolerances_of(options, job.plan));
    status = print_rows(rows, title, json) == 0 ? 0 : 1;
  });
  return status;
}

int start_ranks(const Options& options, const Job& job, bool json) {
  LaunchOptions launch{.on_line = [](std::string_view line, bool is_error) {
    // Rank 0 alone prints the table: its lines need no name before them.
    const auto end = line.find("] ");
    (is_error ? std::cerr : std::cout)
        << (is_error || end == std::string_view::npos ? line : line.substr(end + 2)) << std::endl;
  }};
  const std::vector<std::string> kinds = job.plan.kind_of_rank();
  const VerifyTolerances tolerances = tolerances_of(options, job.plan);
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    std::vector<std::string> argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                     "verify",
                                     options.folder,
                                     "--plan",
                                     options.plan,
                                     "--reference",
                                     options.reference,
                                     "--threads",
                                     text(options.device.threads),
                                     "--tolerance-loss",
                                     text(tolerances.loss),
                                     "--tolerance-norm",
                                     text(tolerances.gradient_norm),
                                     "--tolerance-losses",
                                     text(tolerances.losses)};
    if (!options.cluster.empty()) argv.insert(argv.end(), {"--cluster", options.cluster});
    const std::vector<std::string> meeting = words_of(options.meeting);
    argv.insert(argv.end(), meeting.begin(), meeting.end());
    if (json) argv.emplace_back("--json");
    launch.ranks.push_back({.rank = static_cast<int>(rank), .label = kinds[rank], .argv = argv});
  }
  return run_ranks(launch).exit_status;
}

int run(const Options& options, bool json) {
  if (options.backend.empty() && options.plan.empty()) {
    Options with_cpu = options;
    with_cpu.backend = "cpu";
    return run_rank(with_cpu, read_job(with_cpu), {}, json);
  }
  const Job job = read_job(options);
  if (options.plan.empty()) return run_rank(options, job, {}, json);
  const RendezvousOptions meeting = meeting_of(options.meeting);
  if (meeting.world_size > 1 || job.plan.world_size() == 1) {
    return run_rank(options, job, meeting, json);
  }
  return start_ranks(options, job, json);
}

}  // namespace

void add_verify(CLI::App& app, VerbCall& call) {
  auto options = std::make_shared<Options>();
  CLI::App& verb = *app.add_subcommand(
      "verify", "train on a folder's batches and compare with its expected numbers");
  verb.footer(
      "Examples:\n  hethub verify tests/data/golden/llama --backend opencl\n"
      "  on each of two hosts: hethub launch --plan plan.json --ranks 0,1 --master-addr node0 "
      "--port "
      "29500 -- verify FOLDER\n"
      "Exit status 1 if a number is over its tolerance.");
  verb.add_option("folder", options->folder,
                  "config.json, model.safetensors, tokens.json, expected.json")
      ->required();
  auto* backend = verb.add_option("--backend", options->backend, "one rank of this kind (cpu)");
  verb.add_option("--plan", options->plan,
                  "a plan; its ranks are started here, unless a launcher has started this one")
      ->excludes(backend);
  verb.add_option("--cluster", options->cluster, "says which backend opens each kind");
  verb.add_option("--reference", options->reference, "section of expected.json")
      ->capture_default_str();
  verb.add_option("--threads", options->device.threads)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb.add_option("--dtype", options->dtype, "with --backend: f32 or bf16 (a plan says its own)")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->excludes("--plan")
      ->capture_default_str();
  const auto add_tolerance = [&](const char* name, auto& value, const char* what, double f32,
                                 double bf16) {
    verb.add_option(name, value,
                    text(what, ", relative; default: ", f32, " in f32, ", bf16, " in bf16"));
  };
  const VerifyTolerances f32;
  add_tolerance("--tolerance-loss", options->tolerance_loss, "of the first loss", f32.loss,
                kBf16Tolerances.loss);
  add_tolerance("--tolerance-norm", options->tolerance_norm, "of gradients' norms",
                f32.gradient_norm, kBf16Tolerances.gradient_norm);
  add_tolerance("--tolerance-losses", options->tolerance_losses, "of later losses", f32.losses,
                kBf16Tolerances.losses);
  add_meeting(verb, options->meeting);
  on_chosen(verb, call, "verify", std::move(options), run);
}

}  // namespace hethub
