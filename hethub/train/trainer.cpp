#include "hethub/train/trainer.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <unistd.h>

#include "hethub/base/clock.h"
#include "hethub/base/error.h"
#include "hethub/checkpoint/check.h"
#include "hethub/checkpoint/folder.h"
#include "hethub/checkpoint/reader.h"
#include "hethub/plan/plan_file.h"
#include "hethub/plan/validate.h"
#include "hethub/trace/perfetto.h"
#include "hethub/train/replica_check.h"

namespace hethub {
namespace {

void require_undamaged(const std::filesystem::path& folder) {
  const CheckedCheckpoint checked = check_checkpoint(0, folder);
  if (checked.good()) return;
  throw Error(ErrorCode::kCorruptData,
              {.what = folder.string(),
               .found = checked.faults.front(),
               .expected = "shards as they were written",
               .fix = "resume from an earlier step, or use --resume auto"});
}

// The newest undamaged one, with a note for each that is passed over; none if there is none at all.
// A run whose checkpoints are all damaged does not begin anew by itself.
std::optional<std::filesystem::path> newest_undamaged(const CheckpointList& saved,
                                                      std::vector<std::string>& notes) {
  for (const FoundCheckpoint& one : saved.complete) {
    const CheckedCheckpoint checked = check_checkpoint(one.step, one.folder);
    if (checked.good()) return one.folder;
    notes.push_back(text("ignored step-", one.step, ": ", checked.faults.front()));
  }
  if (saved.complete.empty()) return std::nullopt;
  throw Error(ErrorCode::kCorruptData,
              {.what = saved.complete.front().folder.parent_path().string(),
               .found = text("damage in each of ", saved.complete.size(),
                             " checkpoints; the last: ", notes.back()),
               .expected = "one that is as it was written",
               .fix = "restore one from a copy, or begin anew in another --checkpoint-dir"});
}

// A run goes on with the model and the order of samples that it began with.
void check_same_run(const std::filesystem::path& folder, const CheckpointFacts& facts,
                    const TrainOptions& options) {
  for (const auto& [name, value] : facts.counters) {
    if (value >= 0) continue;
    throw Error(ErrorCode::kCorruptData, {.what = text(folder.string(), ": counter ", name),
                                          .found = text(value),
                                          .expected = "0 or more",
                                          .fix = "resume from another step"});
  }
  const auto seed = facts.seeds.find("run");
  const bool same_seed = seed != facts.seeds.end() && seed->second == options.start.seed;
  if (!same_seed) {
    const std::string saved = seed == facts.seeds.end() ? "none" : text(seed->second);
    throw Error(ErrorCode::kInvalidConfig, {.what = "--seed",
                                            .found = text(options.start.seed),
                                            .expected = text(saved, ", that of ", folder.string()),
                                            .fix = "resume with the seed of the run"});
  }
  if (!facts.data.empty() && !options.data.empty() && facts.data != options.data &&
      !options.start.other_data) {
    throw Error(
        ErrorCode::kInvalidConfig,
        {.what = folder.string(),
         .found = "other training samples: another dataset, sequence length or held-out part",
         .expected = "the samples of the run, so that it goes on with the next one",
         .fix = "pass the --data that the run began with, or --other-data to change it"});
  }
  const auto fields =
      differing_fields(parse_model(facts.model_config, folder.string()), options.model);
  if (fields.empty()) return;
  std::string all;
  for (const std::string& field : fields) {
    all += (all.empty() ? "" : ", ") + field;
  }
  throw Error(ErrorCode::kInvalidConfig, {.what = folder.string(),
                                          .found = "another model: it differs in " + all,
                                          .expected = "the model of the run",
                                          .fix = "pass the config.json that the run began with"});
}

// A resume from elsewhere writes into a folder of its own, or its steps mix with another run's.
void check_folder_is_of(const std::filesystem::path& resumed, const CheckpointList& saved,
                        const std::filesystem::path& dir) {
  if (saved.complete.empty()) return;
  std::error_code ignored;
  if (std::filesystem::equivalent(resumed / "..", dir, ignored)) return;
  throw Error(ErrorCode::kInvalidConfig,
              {.what = dir.string(),
               .found = text("checkpoints of another run than ", resumed.string()),
               .expected = "an empty folder, or the one that the run is resumed from",
               .fix = "name another --checkpoint-dir"});
}

std::vector<Segment> checked_segments(const TrainOptions& options, int world_size) {
  require_valid(options.plan, options.model);
  check(options.optimizer);
  require_ranks(options.plan, world_size);
  return segments_of(options.plan, options.model);
}

// Puts the injection's value into this rank's gradient in the steps that it names.
std::function<void(std::int64_t, View, Queue&)> nan_of(const Injection& inject, int rank) {
  if (inject.nan_rank != rank) return {};
  return [inject](std::int64_t step, View gradients, Queue& queue) {
    if (step + 1 < inject.nan_step || step + 1 > inject.nan_last) return;
    queue.upload(std::as_bytes(std::span(&inject.nan_value, 1)), gradients.slice(0, 4));
  };
}

}  // namespace

Trainer::Trainer(TrainOptions options, Backend& backend, Messenger& messenger)
    : options_(std::move(options)),
      messenger_(messenger),
      segments_(checked_segments(options_, messenger.world_size())),
      rank_(make_rank_plan(options_.plan, options_.model, segments_, messenger.rank())),
      schedule_(schedule_of(options_.plan, rank_.position.pipeline)),
      device_(backend, rank_),
      state_(options_.model, device_) {
  worker_ = std::make_unique<RankWorker>(RankWorkerOptions{
      .plan = &options_.plan,
      .segments = &segments_,
      .rank = &rank_,
      .schedule = &schedule_,
      .device = &device_,
      .messenger = &messenger_,
      .optimizer = options_.optimizer,
      .timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options_.timeout_s * 1000)),
      .before_sync = nan_of(options_.inject, rank_.rank)});
  start();
  record_labels();
  const std::vector<std::string> arenas = gather_text(text(rank_.memory.arena_bytes));
  for (const std::string& arena : arenas) {
    largest_arena_ = std::max<std::int64_t>(largest_arena_, std::stoll(arena));
  }
}

Trainer::~Trainer() = default;

void Trainer::start() {
  const std::string& wanted = options_.start.resume;
  const CheckpointList saved = list_checkpoints(options_.checkpoint.dir);
  if (wanted == "auto") {
    notes_ = saved.ignored;
    if (const auto newest = newest_undamaged(saved, notes_)) return resume(*newest);
  } else if (!wanted.empty()) {
    const std::filesystem::path folder = resolve_checkpoint(wanted);
    require_undamaged(folder);
    check_folder_is_of(folder, saved, options_.checkpoint.dir);
    return resume(folder);
  }
  if (wanted.empty() && !saved.complete.empty()) {
    throw Error(
        ErrorCode::kInvalidConfig,
        {.what = options_.checkpoint.dir.string(),
         .found = text("checkpoints of another run, up to step ", saved.complete.front().step),
         .expected = "an empty folder for a run that begins anew",
         .fix = "go on with --resume auto, or name another --checkpoint-dir"});
  }
  if (options_.start.init_from.empty()) return state_.initialize(options_.start.seed);
  const auto warnings =
      state_.load_hugging_face(options_.start.init_from, options_.start.tie_missing_head);
  notes_.insert(notes_.end(), warnings.begin(), warnings.end());
}

void Trainer::resume(const std::filesystem::path& folder) {
  check_same_run(folder, Checkpoint::open(folder).facts(), options_);
  const CheckpointFacts facts = state_.load_checkpoint(folder);
  check_same_optimizer(facts.optimizer, options_.optimizer);
  step_ = facts.step;
  const auto counter = [&](const char* name) {
    const auto found = facts.counters.find(name);
    return found == facts.counters.end() ? 0 : found->second;
  };
  updates_ = counter("updates");
  skipped_ = counter("skipped_steps");
  tokens_seen_ = static_cast<double>(counter("tokens"));
  last_saved_ = step_;
  if (facts.next_sample != step_ * options_.plan.global_batch) {
    throw Error(ErrorCode::kInvalidConfig,
                {.what = text(folder.string(), ": the next sample"),
                 .found = text(facts.next_sample),
                 .expected = text(step_ * options_.plan.global_batch, ", step ", step_,
                                  " of global batches of ", options_.plan.global_batch),
                 .fix = "resume with the global batch that the run had"});
  }
  notes_.push_back(text("resumed from ", folder.filename().string(), " at step ", step_));
}

void Trainer::record_labels() {
  if (options_.trace_steps <= 0) return;
  const auto& actions = schedule_.actions.at(rank_.position.stage);
  const auto capacity = options_.trace_steps * (std::ssize(actions) + std::ssize(rank_.buckets));
  recorder_ = std::make_unique<TraceRecorder>(
      rank_.rank, text("rank ", rank_.rank, " (", rank_.kind, ")"), capacity);
  const auto add = [&](const ActionLabel& label) {
    labels_.push_back(recorder_->add_label({.lane = std::string(label.lane),
                                            .name = label.name,
                                            .category = std::string(label.category)}));
  };
  for (const Action& action : actions) {
    add(label_of(action));
  }
  for (int bucket = 0; bucket < std::ssize(rank_.buckets); ++bucket) {
    add(bucket_label(bucket));
  }
}

void Trainer::run(const SampleSource& training, const SampleSource* held_out,
                  const TrainObserver& observer) {
  for (const std::string& note : notes_) {
    if (leads() && observer.note) observer.note(note);
  }
  while (step_ < options_.steps) {
    train_step(training, observer);
    const bool last = step_ == options_.steps;
    const auto due = [&](std::int64_t every) { return last || (every > 0 && step_ % every == 0); };
    if (held_out != nullptr && options_.evaluate_rounds > 0 && due(options_.evaluate_every)) {
      evaluate(*held_out, observer);
    }
    if (options_.verify_replicas && due(options_.checkpoint.every)) verify_replicas(observer);
    if (!options_.checkpoint.dir.empty() && due(options_.checkpoint.every)) save(observer);
    if (skipped_in_a_row_ >= options_.most_skips_in_a_row) {
      throw Error(
          ErrorCode::kNumerical,
          {.what = "training",
           .found = text(skipped_in_a_row_, " skipped steps in a row, the last at step ", step_),
           .expected = text("fewer than ", options_.most_skips_in_a_row),
           .fix = "lower --lr, look at the data of these steps, or raise --max-skips"});
    }
  }
}

void Trainer::train_step(const SampleSource& training, const TrainObserver& observer) {
  ActionObserver record;
  if (recorder_ != nullptr) {
    record = [this](int slot, double begin, double end) {
      recorder_->record(labels_[static_cast<std::size_t>(slot)], begin, end);
    };
  }
  const double begin = seconds_now();
  const StepResult& result = worker_->run_step(training, step_, updates_ + 1, record);
  const double seconds = seconds_now() - begin;
  ++step_;
  updates_ += result.skipped ? 0 : 1;
  skipped_ += result.skipped ? 1 : 0;
  skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
  tokens_seen_ += result.tokens;
  seconds_ += seconds;
  ++steps_timed_;
  if (!leads() || !observer.step) return;
  observer.step(result, {.step = step_,
                         .total_steps = options_.steps,
                         .step_seconds = seconds,
                         .predicted_seconds = options_.plan.predicted_step_seconds,
                         .flops_per_token =
                             model_flops_per_token(options_.model, options_.plan.sequence_length),
                         .gemm_flops_per_s = options_.gemm_flops_per_s,
                         .seconds_left = seconds_ / static_cast<double>(steps_timed_) *
                                         static_cast<double>(options_.steps - step_),
                         .arena_bytes = largest_arena_,
                         .skipped_steps = skipped_,
                         .emulated = options_.emulated});
}

void Trainer::evaluate(const SampleSource& held_out, const TrainObserver& observer) {
  const std::int64_t whole = held_out.samples_per_epoch() / options_.plan.global_batch;
  const std::int64_t rounds =
      std::clamp<std::int64_t>(options_.evaluate_rounds, 1, std::max<std::int64_t>(whole, 1));
  RankWorker::Evaluation sum;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const RankWorker::Evaluation part = worker_->evaluate(held_out, round);
    sum.loss_sum += part.loss_sum;
    sum.tokens += part.tokens;
  }
  if (leads() && observer.evaluation) {
    observer.evaluation(step_, sum.loss_sum / std::max(sum.tokens, 1.0), sum.tokens);
  }
}

ShardOptions Trainer::shard_options() const {
  const Injection& inject = options_.inject;
  const bool here = inject.kill_step < 0 || inject.kill_step == step_;
  if (inject.kill_at_checkpoint_bytes < 0 || !here) return {};
  return {.after_bytes = [share = inject.kill_at_checkpoint_bytes](std::int64_t written,
                                                                   std::int64_t total) {
    if (static_cast<double>(written) >= share * static_cast<double>(total)) {
      ::kill(::getpid(), SIGKILL);
    }
  }};
}

void Trainer::save(const TrainObserver& observer) {
  if (last_saved_ == step_) return;
  const ShardRecord mine =
      state_.save({options_.checkpoint.dir, step_, rank_.rank}, shard_options());
  const std::vector<std::string> texts = gather_text(to_text(mine));
  if (leads()) {
    std::vector<ShardRecord> records;
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      records.push_back(record_from(texts[rank], text("the record of rank ", rank)));
    }
    const CheckpointFacts facts{.step = step_,
                                .next_sample = step_ * options_.plan.global_batch,
                                .seeds = {{"run", options_.start.seed}},
                                .counters = {{"updates", updates_},
                                             {"skipped_steps", skipped_},
                                             {"tokens", static_cast<std::int64_t>(tokens_seen_)}},
                                .optimizer = facts_of(options_.optimizer),
                                .plan_hash = plan_hash(options_.plan),
                                .data = options_.data,
                                .model_config = options_.model.json};
    const auto folder = commit_checkpoint(options_.checkpoint.dir, facts, state_.logical_tensors(),
                                          records, {.keep_last = options_.checkpoint.keep_last});
    if (observer.note) observer.note("saved " + folder.string());
  }
  worker_->world().barrier(worker_->deadline());
  last_saved_ = step_;
}

// All ranks come to the same verdict.
void Trainer::verify_replicas(const TrainObserver& observer) {
  const std::string when = text("at step ", step_);
  const std::int64_t parts = require_equal_replicas(
      segments_, gather_text(replica_digests(segments_, device_, worker_->deadline())), when);
  if (!leads() || !observer.note) return;
  observer.note(text(when, ", ", parts, " parts of tensors are bit-equal on all their ranks"));
}

// Every rank's text, in rank order, on every rank.
std::vector<std::string> Trainer::gather_text(const std::string& mine) {
  Communicator& world = worker_->world();
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<double> sizes(ranks, 0.0);
  sizes[static_cast<std::size_t>(rank_.rank)] = static_cast<double>(mine.size());
  world.all_reduce_host(sizes, worker_->deadline());
  const auto longest = static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::byte> padded(longest);
  std::memcpy(padded.data(), mine.data(), mine.size());
  std::vector<std::byte> all(longest * ranks);
  world.all_gather_host(padded, all, worker_->deadline());
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data()) + rank * longest,
                       static_cast<std::size_t>(sizes[rank]));
  }
  return texts;
}

std::vector<float> Trainer::read_floats(const ArenaRange& range) {
  std::vector<float> values(static_cast<std::size_t>(range.bytes / 4));
  device_.queue().download(device_.view(range), std::as_writable_bytes(std::span(values)));
  device_.synchronize(worker_->deadline());
  return values;
}

Timeline Trainer::gather_trace() {
  std::string mine;
  if (recorder_ != nullptr) {
    const Timeline timeline = recorder_->take("measured");
    mine = perfetto_text(std::span(&timeline, 1));
  }
  const std::vector<std::string> texts = gather_text(mine);
  std::vector<Timeline> parts;
  for (const std::string& part : texts) {
    if (!leads() || part.empty()) continue;
    for (Timeline& timeline : parse_perfetto(part, "trace")) {
      parts.push_back(std::move(timeline));
    }
  }
  Timeline all = merge(parts);
  all.name = "measured";
  return all;
}

}  // namespace hethub
