#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "cli/meeting.h"
#include "cli/train_setup.h"
#include "cli/verb.h"
#include "hethub/accel/emulated/emulated.h"
#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/base/files.h"
#include "hethub/base/json.h"
#include "hethub/cost/costs_file.h"
#include "hethub/data/token_dataset.h"
#include "hethub/plan/plan_file.h"
#include "hethub/plan/validate.h"
#include "hethub/trace/perfetto.h"
#include "hethub/train/sample_digest.h"
#include "hethub/train/trainer.h"

namespace hethub {
namespace {

struct Options {
  std::string plan = {};
  std::string model = {};
  std::string data = {};
  std::string cluster = {};
  std::string costs = {};
  std::string log_json = {};
  std::string log_samples = {};
  std::string trace = {};
  std::vector<std::string> inject = {};
  double held_out_fraction = 0.02;
  MeetingOptions meeting = {};
  double progress_seconds = -1;  // between lines; -1: every step on a terminal, else every 10 s
  bool dry_run = false;
  BackendOptions device = {};
  TrainOptions train = {};
};

[[noreturn]] void bad_injection(const std::string& found) {
  throw Error(ErrorCode::kUsage,
              {.what = "--inject",
               .found = found,
               .expected = "nan_grad:rank=R,step=S[,last=S] or kill:after=ckpt_bytes:P%[,step=S]",
               .fix = "correct it"});
}

// "name=12" behind a comma or the colon.
std::optional<std::int64_t> number_after(const std::string& spec, const std::string& name) {
  const auto at = spec.find(name + "=");
  if (at == std::string::npos) return std::nullopt;
  try {
    return std::stoll(spec.substr(at + name.size() + 1));
  } catch (const std::exception&) {
    bad_injection(spec);
  }
}

void read_injection(const std::string& spec, Injection& inject) {
  const std::string kill = "kill:after=ckpt_bytes:";
  if (spec.starts_with("nan_grad:")) {
    const auto rank = number_after(spec, "rank");
    const auto step = number_after(spec, "step");
    if (!rank || !step) bad_injection(spec);
    inject.nan_rank = static_cast<int>(*rank);
    inject.nan_step = *step;
    inject.nan_last = number_after(spec, "last").value_or(*step);
  } else if (spec.starts_with(kill) && spec.find('%') != std::string::npos) {
    try {
      inject.kill_at_checkpoint_bytes = std::stod(spec.substr(kill.size())) / 100;
    } catch (const std::exception&) {
      bad_injection(spec);
    }
    inject.kill_step = number_after(spec, "step").value_or(-1);
  } else {
    bad_injection(spec);
  }
}

// Writes down every sample that this rank reads: "SAMPLE ID", a line each.
class LoggedSource : public SampleSource {
 public:
  LoggedSource(const SampleSource& source, const std::string& file)
      : source_(source), file_(file), out_(file) {
    require_written();
  }

  std::int64_t sequence_length() const override { return source_.sequence_length(); }
  std::int64_t samples_per_epoch() const override { return source_.samples_per_epoch(); }
  std::int64_t id_of(std::int64_t sample) const override { return source_.id_of(sample); }
  void read(std::int64_t sample, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels) const override {
    out_ << sample << ' ' << source_.id_of(sample) << std::endl;
    require_written();
    source_.read(sample, tokens, labels);
  }

 private:
  void require_written() const {
    if (out_) return;
    throw Error(ErrorCode::kCannotWrite, {.what = "--log-samples: " + file_,
                                          .found = "no way to write it",
                                          .expected = "a file",
                                          .fix = "check its folder, rights and free space"});
  }

  const SampleSource& source_;
  std::string file_;
  mutable std::ofstream out_;
};

// What rank 0 shows and stores while the run goes on.
class Reporter {
 public:
  Reporter(const Options& options, bool json) : json_(json) {
    if (!options.log_json.empty()) {
      log_.open(options.log_json, std::ios::app);
      if (!log_) {
        throw Error(ErrorCode::kCannotWrite, {.what = options.log_json,
                                              .found = "no way to write it",
                                              .expected = "a file",
                                              .fix = "check its folder and rights"});
      }
    }
    every_ = options.progress_seconds;
    if (every_ < 0) every_ = ::isatty(STDOUT_FILENO) != 0 ? 0 : 10;
  }

  TrainObserver observer() {
    return {.step = [this](const StepResult& r, const ProgressFacts& f) { step(r, f); },
            .evaluation = [this](std::int64_t s, double l, double t) { evaluation(s, l, t); },
            .note = [this](const std::string& note) { this->note(note); }};
  }

  /// What the devices of all ranks say of their pace, of an emulated run.
  void pacing(const Pacing& pacing) {
    const double share = static_cast<double>(pacing.overran) /
                         static_cast<double>(std::max<std::int64_t>(pacing.ops, 1));
    if (log_.is_open() || json_) {
      const std::string line = Json({{"emulated", true},
                                     {"pacing", {{"ops", pacing.ops}, {"overran", pacing.overran}}},
                                     {"void", !pacing.holds()}})
                                   .dump();
      if (log_.is_open()) log_ << line << std::endl;
      if (json_) std::cout << line << std::endl;
    }
    if (json_) return;
    std::cout << "emulated: " << pacing.overran << " of " << pacing.ops
              << " ops overran their paced time (" << 100 * share << " %)"
              << (pacing.holds() ? ""
                                 : ": this run is VOID, its times are those of the cpu; raise the "
                                   "emulation's scale")
              << std::endl;
  }

 private:
  void step(const StepResult& result, const ProgressFacts& facts) {
    const std::string line = progress_json(result, facts);
    if (log_.is_open()) log_ << line << std::endl;
    const bool due = facts.step == facts.total_steps || result.skipped || first_ ||
                     seconds_now() - last_ >= every_;
    if (!due) return;
    first_ = false;
    last_ = seconds_now();
    std::cout << (json_ ? line : progress_line(result, facts)) << std::endl;
  }

  void evaluation(std::int64_t step, double loss, double tokens) {
    const std::string line = text(R"({"step":)", step, R"(,"held_out_loss":)", loss,
                                  R"(,"held_out_tokens":)", static_cast<std::int64_t>(tokens), "}");
    if (log_.is_open()) log_ << line << std::endl;
    std::cout << (json_ ? line
                        : text("step ", step, " | held-out loss ", loss, " over ",
                               static_cast<std::int64_t>(tokens), " tokens"))
              << std::endl;
  }

  void note(const std::string& note) {
    if (!json_) std::cout << note << std::endl;
  }

  bool json_;
  std::ofstream log_ = {};
  double every_ = 0;
  double last_ = 0;
  bool first_ = true;
};

// Of all ranks' devices: every rank calls it. A device that is not emulated has no ops to count.
Pacing pacing_of_all(const Backend& backend, RankWorker& worker) {
  const Pacing mine = pacing_of(backend).value_or(Pacing{});
  std::array<double, 2> sums = {static_cast<double>(mine.ops), static_cast<double>(mine.overran)};
  worker.world().all_reduce_host(sums, worker.deadline());
  return {.ops = static_cast<std::int64_t>(sums[0]), .overran = static_cast<std::int64_t>(sums[1])};
}

TrainOptions complete(const Options& options) {
  TrainOptions train = options.train;
  PlanAndModel read = read_plan_and_model(options.plan, options.model);
  train.plan = std::move(read.plan);
  train.model = std::move(read.model);
  train.optimizer.total_steps = train.steps;
  train.emulated = any_emulated(train.plan.kind_of_rank(), options.cluster);
  for (const std::string& spec : options.inject) {
    read_injection(spec, train.inject);
  }
  if (!options.costs.empty()) {
    train.gemm_flops_per_s = measured_gemm_rate(train.plan, read_costs(options.costs));
  }
  if (train.trace_steps == 0 && !options.trace.empty()) train.trace_steps = 3;
  return train;
}

TokenDatasetOptions data_options(const Options& options, const TrainOptions& train, Split split) {
  return {.prefix = options.data,
          .sequence_length = train.plan.sequence_length,
          .vocabulary_size = train.model.vocab_size,
          .seed = train.start.seed,
          .held_out_fraction = options.held_out_fraction,
          .split = split};
}

int dry_run(const Options& options, const TrainOptions& train) {
  require_valid(train.plan, train.model);
  require_backends(train.plan.kind_of_rank(), options.cluster);
  check(train.optimizer);
  const TokenDataset data(data_options(options, train, Split::kTraining));
  const auto segments = segments_of(train.plan, train.model);
  std::cout << "dry run: " << parameter_count(train.model) << " parameters, "
            << data.samples_per_epoch() << " samples of " << data.sequence_length()
            << " tokens, plan " << plan_hash(train.plan) << '\n';
  for (int rank = 0; rank < train.plan.world_size(); ++rank) {
    const RankPlan plan = make_rank_plan(train.plan, train.model, segments, rank);
    std::cout << "rank " << rank << " (" << plan.kind << "): pipeline " << plan.position.pipeline
              << " stage " << plan.position.stage;
    for (const Program& program : plan.programs) {
      std::cout << ", " << program.name;
    }
    std::cout << ", arena " << bytes_text(static_cast<double>(plan.memory.arena_bytes)) << '\n';
  }
  return 0;
}

// What a long run would otherwise find out at its end.
void check_can_write(const Options& options, const TrainOptions& train) {
  const auto probe = [](const std::filesystem::path& file) {
    if (std::ofstream(file, std::ios::app)) return;
    throw Error(ErrorCode::kCannotWrite, {.what = file.string(),
                                          .found = "no way to write it",
                                          .expected = "a file that can be written",
                                          .fix = "check its folder and rights"});
  };
  if (!options.trace.empty()) probe(options.trace);
  if (train.checkpoint.dir.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(train.checkpoint.dir, failure);
  const auto file = train.checkpoint.dir / ".writable";
  probe(file);
  std::filesystem::remove(file, failure);
}

void train_rank(const Options& options, TrainOptions train, Messenger& messenger, bool json) {
  if (messenger.rank() == 0) check_can_write(options, train);
  const std::string kind = train.plan.kind_of_rank().at(static_cast<std::size_t>(messenger.rank()));
  const auto backend = open_kind(kind, options.cluster, options.device);
  const TokenDataset training(data_options(options, train, Split::kTraining));
  train.data = digest_of(training);
  std::optional<TokenDataset> held_out;
  if (train.evaluate_rounds > 0) held_out.emplace(data_options(options, train, Split::kHeldOut));
  std::optional<LoggedSource> logged;
  if (!options.log_samples.empty()) {
    logged.emplace(training, text(options.log_samples, ".rank-", messenger.rank()));
  }
  Trainer trainer(train, *backend, messenger);
  const bool leads = messenger.rank() == 0;
  std::optional<Reporter> reporter;
  if (leads) reporter.emplace(options, json);
  trainer.run(logged ? static_cast<const SampleSource&>(*logged) : training,
              held_out ? &*held_out : nullptr, leads ? reporter->observer() : TrainObserver{});
  if (train.emulated) {
    const Pacing pacing = pacing_of_all(*backend, trainer.worker());
    if (leads) reporter->pacing(pacing);
  }
  if (options.trace.empty()) return;
  const Timeline timeline = trainer.gather_trace();
  if (leads) write_perfetto(std::span(&timeline, 1), options.trace);
}

int run(const Options& options, bool json) {
  const TrainOptions train = complete(options);
  if (options.dry_run) return dry_run(options, train);
  require_valid(train.plan, train.model);
  RendezvousOptions meeting = meeting_of(options.meeting);
  require_ranks(train.plan, meeting.world_size);
  // Of the other ranks' hosts this build knows nothing.
  require_backends({train.plan.kind_of_rank().at(static_cast<std::size_t>(meeting.rank))},
                   options.cluster);
  meeting.plan_hash = plan_hash(train.plan);
  run_in_world(meeting, options.meeting.flight,
               [&](Messenger& messenger) { train_rank(options, train, messenger, json); });
  return 0;
}

void add_optimizer(CLI::App& verb, OptimizerOptions& optimizer) {
  verb.add_option("--optimizer", optimizer.name, "adamw or sgd (with --momentum)")
      ->capture_default_str();
  verb.add_option("--momentum", optimizer.momentum, "of sgd")->capture_default_str();
  verb.add_option("--lr", optimizer.learning_rate, "learning rate at its highest")
      ->capture_default_str();
  verb.add_option("--min-lr", optimizer.min_learning_rate, "what a falling schedule ends at");
  verb.add_option("--lr-schedule", optimizer.schedule, "cosine, constant, linear or wsd")
      ->capture_default_str();
  verb.add_option("--decay-steps", optimizer.decay_steps, "of wsd: the last, over which it falls");
  verb.add_option("--warmup-steps", optimizer.warmup_steps, "steps over which the rate rises");
  verb.add_option("--beta1", optimizer.beta1)->capture_default_str();
  verb.add_option("--beta2", optimizer.beta2)->capture_default_str();
  verb.add_option("--epsilon", optimizer.epsilon)->capture_default_str();
  verb.add_option("--weight-decay", optimizer.weight_decay)->capture_default_str();
  verb.add_option("--grad-clip", optimizer.clip_norm, "global norm; 0: none")
      ->capture_default_str();
}

void add_state(CLI::App& verb, TrainOptions& train) {
  verb.add_option("--seed", train.start.seed, "of the weights and of the order of samples");
  verb.add_option("--init-from", train.start.init_from, "start from a Hugging Face folder");
  verb.add_flag("--tie-missing-head", train.start.tie_missing_head)
      ->description("use the embedding where that folder has no head");
  verb.add_option("--checkpoint-dir", train.checkpoint.dir, "where to save");
  verb.add_option("--checkpoint-every", train.checkpoint.every, "steps; always at the end");
  verb.add_option("--keep-last", train.checkpoint.keep_last, "checkpoints that stay")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb.add_option("--resume", train.start.resume, "auto, or a checkpoint's folder");
  verb.add_flag("--other-data", train.start.other_data, "resume with other samples than before");
  verb.add_flag("--verify-replicas", train.verify_replicas)
      ->description("check at each checkpoint and at the end that copies are bit-equal");
  verb.add_flag("--deterministic", [](std::int64_t) {})
      ->description("equal runs give equal bits; always so, there is no other mode");
  verb.add_option("--max-skips", train.most_skips_in_a_row, "skipped steps in a row that end it")
      ->capture_default_str();
}

}  // namespace

void add_train(CLI::App& app, VerbCall& call) {
  auto options = std::make_shared<Options>();
  CLI::App& verb = *app.add_subcommand("train", "run one rank of a training (see launch)");
  verb.footer(
      "Example:\n  hethub launch --plan plan.json -- train --data text --steps 300 "
      "--checkpoint-dir run/checkpoints --resume auto");
  verb.add_option("--plan", options->plan, "the plan's file")->required();
  verb.add_option("--model", options->model, "config.json, if not the one the plan names");
  verb.add_option("--data", options->data, "prefix of .bin and .idx")->required();
  verb.add_option("--steps", options->train.steps, "steps in all")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  verb.add_option("--cluster", options->cluster, "says which backend opens each kind");
  verb.add_option("--costs", options->costs, "measured peaks, for the share of them");
  verb.add_option("--threads", options->device.threads, "compute threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  verb.add_option("--device", options->device.device, "which of the backend's devices");
  verb.add_option("--held-out-fraction", options->held_out_fraction)->capture_default_str();
  verb.add_option("--evaluate-every", options->train.evaluate_every, "steps; always at the end");
  verb.add_option("--evaluate-rounds", options->train.evaluate_rounds,
                  "held-out global batches an evaluation reads; 0: none");
  verb.add_option("--log-json", options->log_json, "a JSON line a step");
  verb.add_option("--log-samples", options->log_samples, "FILE.rank-N lists the samples read");
  verb.add_option("--progress-seconds", options->progress_seconds, "between progress lines");
  verb.add_option("--trace", options->trace, "a Perfetto file of the last steps, of all ranks");
  verb.add_option("--trace-steps", options->train.trace_steps, "how many (3)");
  verb.add_option("--timeout", options->train.timeout_s, "seconds that a peer may take")
      ->check(CLI::Range(0.1, 1e7))
      ->capture_default_str();
  verb.add_option("--inject", options->inject, "faults, for tests");
  verb.add_flag("--dry-run", options->dry_run)->description("check everything, run nothing");
  add_state(verb, options->train);
  add_optimizer(verb, options->train.optimizer);
  add_meeting(verb, options->meeting);
  on_chosen(verb, call, "train", std::move(options), run);
}

}  // namespace hethub
