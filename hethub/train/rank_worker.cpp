#include "hethub/train/rank_worker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {
namespace {

// What a rank says of its step in the summary: 0 where all is finite, the ordinal of the first
// tensor whose gradient is not, kLoss, or kLoss minus the ordinal of a tensor of which only the sum
// over ranks is not.
constexpr int kLoss = -1;

constexpr bool is_source(int nonfinite) { return nonfinite >= kLoss && nonfinite != 0; }

}  // namespace

RankWorker::RankWorker(const RankWorkerOptions& options)
    : options_(options),
      rank_(*options.rank),
      device_(*options.device),
      messages_(*options.plan, *options.schedule, *options.device, options.timeout) {
  MessageNeeds needs = messages_.needs();
  const MessageNeeds exchange = exchange_needs(rank_);
  needs.messages += exchange.messages;
  needs.longest_bytes = std::max(needs.longest_bytes, exchange.longest_bytes);
  port_ = std::make_unique<DevicePort>(DevicePortOptions{
      .messenger = options_.messenger,
      .backend = &device_.backend(),
      .queue = &device_.queue(),
      .requests = needs.messages + 8,
      .staging_bytes = needs.longest_bytes,
      .staging_slots = needs.messages > 0 ? needs.messages + 4 : 0,
      .force_host_staged = options_.force_host_staged,
      .device_timeout_s = std::chrono::duration<double>(options_.timeout).count()});
  make_inputs();
  sums_.resize(rank_.owned.size());
  for (const Segment& segment : *options_.segments) {
    for (const TensorShard& part : segment.parts) {
      tensor_names_.push_back(part.tensor.name);
    }
  }
  forward_only_ = forward_only(*options_.schedule);
  make_groups();
  messages_.use(*world_);
}

RankWorker::~RankWorker() { device_.set_group_runner(nullptr); }

void RankWorker::make_inputs() {
  const auto rows = static_cast<std::size_t>(batch_shape(*options_.plan, rank_.position).rows());
  sequences_ = sequences_of(*options_.plan, rank_.position);
  counts_tokens_ = tensor_group_of(*options_.plan, rank_.position).front() == rank_.rank;
  host_.tokens.resize(rows);
  host_.labels.resize(rows);
  host_.losses.resize(rows);
  host_.positions.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    host_.positions[row] =
        static_cast<std::int32_t>(row % static_cast<std::size_t>(options_.plan->sequence_length));
  }
}

void RankWorker::make_groups() {
  std::vector<int> all(static_cast<std::size_t>(options_.plan->world_size()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank] = static_cast<int>(rank);
  }
  world_ = std::make_unique<Communicator>(CommunicatorOptions{port_.get(), all, 0});
  summary_.resize(static_cast<std::size_t>(summary_numbers(std::ssize(all))));
  gradient_sums_ = std::make_unique<GradientSums>(sums_options());
  if (rank_.groups.empty()) return;
  group_ops_ = std::make_unique<GroupCollectives>(rank_, *port_, gradient_sums_->groups() + 1,
                                                  options_.timeout);
  device_.set_group_runner(group_ops_.get());
}

GradientSumsOptions RankWorker::sums_options() {
  return {.rank = &rank_,
          .segments = options_.segments,
          .device = &device_,
          .port = port_.get(),
          .timeout = options_.timeout,
          .before_check =
              [this] {
                if (!options_.before_sync) return;
                options_.before_sync(step_, device_.view(rank_.gradients), device_.queue());
              },
          .find_nonfinite =
              [this](const GradientBucket& bucket) { return first_nonfinite_tensor(bucket); }};
}

const StepResult& RankWorker::run_step(const SampleSource& source, std::int64_t step,
                                       std::int64_t update, const ActionObserver& observer) {
  source_ = &source;
  step_ = step;
  update_ = update;
  loss_sum_ = 0;
  tokens_ = 0;
  nonfinite_ = 0;
  result_.skipped = false;
  result_.reason.clear();
  const auto slots = std::ssize(options_.schedule->actions.at(rank_.position.stage));
  gradient_sums_->begin_step(observer, static_cast<int>(slots));
  begin_pass();
  execute(*options_.schedule, rank_.position.stage, *this, observer);
  return result_;
}

RankWorker::Evaluation RankWorker::evaluate(const SampleSource& source, std::int64_t round) {
  source_ = &source;
  step_ = round;
  loss_sum_ = 0;
  tokens_ = 0;
  begin_pass();
  execute(forward_only_, rank_.position.stage, *this);
  messages_.finish();
  std::array<double, 2> sums = {loss_sum_, tokens_};
  world_->all_reduce_host(sums, deadline());
  return {sums[0], sums[1]};
}

// Waits for the device, so that the action's span is the time the device took.
void RankWorker::compute(const Action& what) {
  const int index = rank_.program_of(what);
  const Program& program = rank_.programs[index];
  const bool is_forward = what.kind == ActionKind::kForward;
  if (is_forward) {
    messages_.free_lane(what);
    upload_inputs(index, what.micro_batch);
  }
  for (const Phase phase : phases_of(what.kind)) {
    gradient_sums_->run(index, phase, what.micro_batch);
  }
  const bool has_losses = is_forward && program.losses >= 0;
  if (has_losses) {
    device_.queue().download(device_.view(index, program.losses, what.micro_batch),
                             std::as_writable_bytes(std::span(host_.losses)));
  }
  device_.synchronize(deadline());
  if (has_losses) read_losses();
}

// Parameters are loaded when the worker is there, and before its first pass.
void RankWorker::begin_pass() {
  if (!copies_are_made_) device_.run(device_.copy_ops());
  copies_are_made_ = true;
}

void RankWorker::upload_inputs(int index, int micro_batch) {
  const Pipeline& pipeline = options_.plan->pipelines[rank_.position.pipeline];
  const Program& program = rank_.programs[index];
  const std::int64_t length = options_.plan->sequence_length;
  const bool reads_data = program.find("tokens") >= 0 || program.losses >= 0;
  for (std::int64_t sequence = 0; reads_data && sequence < sequences_.size(); ++sequence) {
    const std::int64_t sample = step_ * options_.plan->global_batch +
                                first_sequence(*options_.plan, rank_.position.pipeline) +
                                std::int64_t{micro_batch} * pipeline.micro_batch_size +
                                sequences_.begin + sequence;
    source_->read(sample, std::span(host_.tokens).subspan(sequence * length, length),
                  std::span(host_.labels).subspan(sequence * length, length));
  }
  const auto upload = [&](const char* name, const std::vector<std::int32_t>& rows) {
    const int value = program.find(name);
    if (value < 0) return;
    device_.queue().upload(std::as_bytes(std::span(rows)), device_.view(index, value, micro_batch));
  };
  upload("tokens", host_.tokens);
  upload("labels", host_.labels);
  upload("positions", host_.positions);
}

void RankWorker::read_losses() {
  double sum = 0;
  for (const float loss : host_.losses) {
    sum += loss;
  }
  loss_sum_ += sum;
  if (!counts_tokens_) return;
  tokens_ +=
      static_cast<double>(std::count_if(host_.labels.begin(), host_.labels.end(),
                                        [](std::int32_t label) { return label != kIgnoredLabel; }));
}

void RankWorker::send(const Action& what, const WorkerAction& to) { messages_.send(what, to); }

void RankWorker::recv(const Action& what, const WorkerAction& from) { messages_.recv(what, from); }

void RankWorker::finish_step(const Action& what) {
  switch (what.kind) {
    case ActionKind::kCheckGradients:
      return check_gradients();
    case ActionKind::kSyncGradients:
      return gradient_sums_->finish(deadline());
    case ActionKind::kNormGradients:
      return norm_gradients();
    case ActionKind::kSyncNorm:
      return sync_norm();
    case ActionKind::kUpdate:
      return update();
    case ActionKind::kSyncParameters:
      return share_parameters();
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient:
      break;
  }
}

void RankWorker::check_gradients() {
  messages_.finish();
  nonfinite_ = gradient_sums_->finish_checks(deadline());
}

int RankWorker::ordinal_of(const std::string& tensor) const {
  const auto found = std::find(tensor_names_.begin(), tensor_names_.end(), tensor);
  return static_cast<int>(found - tensor_names_.begin()) + 1;
}

// Only after a failure: reads the bucket's gradients tensor by tensor.
int RankWorker::first_nonfinite_tensor(const GradientBucket& bucket) {
  const HeldSegment& held = rank_.segments[bucket.held];
  View gradients = device_.view(held.gradients);
  for (const TensorShard& part : (*options_.segments)[held.segment].parts) {
    const std::int64_t count = std::min(part.count, gradients.bytes / 4);  // or what is kept of it
    std::vector<float> values(static_cast<std::size_t>(count));
    device_.queue().download(gradients.slice(0, count * 4),
                             std::as_writable_bytes(std::span(values)));
    device_.synchronize(deadline());
    const bool finite = std::all_of(values.begin(), values.end(),
                                    [](float element) { return std::isfinite(element); });
    if (!finite) return ordinal_of(part.tensor.name);
    const std::int64_t used = std::min(padded_elements(part.count) * 4, gradients.bytes);
    gradients = gradients.slice(used, gradients.bytes - used);
  }
  return 0;  // every value is a number; the sum of their squares overflowed
}

void RankWorker::norm_gradients() {
  device_.run(device_.norm_ops());
  device_.queue().download(device_.view(rank_.square_sums),
                           std::as_writable_bytes(std::span(sums_)));
  device_.synchronize(deadline());
  result_.square_sums.assign(sums_.begin(), sums_.end());
}

void RankWorker::sync_norm() {
  std::fill(summary_.begin(), summary_.end(), 0.0);
  for (std::size_t piece = 0; piece < rank_.owned.size(); ++piece) {
    const double sum = sums_[piece];
    summary_[kSquareSum] += std::isfinite(sum) ? sum : 0;
    if (std::isfinite(sum) || nonfinite_ != 0) continue;
    // Where gradients are mixed, check_gradients() has found whose they were, unless each rank's
    // were finite and their sum, or its square, is not.
    const int ordinal = ordinal_of(rank_.owned[piece].slice.tensor.name);
    nonfinite_ = rank_.owned[piece].mixed ? kLoss - ordinal : ordinal;
  }
  if (!std::isfinite(loss_sum_) && !is_source(nonfinite_)) nonfinite_ = kLoss;
  summary_[kLossSum] = std::isfinite(loss_sum_) ? loss_sum_ : 0;
  summary_[kTokens] = tokens_;
  summary_[kSummaryNumbers + rank_.rank] = nonfinite_;
  world_->all_reduce_host(summary_, deadline());
  result_.tokens = summary_[kTokens];
  result_.loss = summary_[kLossSum] / std::max(result_.tokens, 1.0);
  result_.gradient_norm =
      result_.tokens > 0 ? gradient_norm({summary_[kTokens], summary_[kSquareSum]}) : 0;
  result_.learning_rate = learning_rate(options_.optimizer, step_);
  note_nonfinite();
  if (result_.tokens == 0 && !result_.skipped) {
    result_.skipped = true;
    result_.reason = "no counted label in the global batch";
  }
}

void RankWorker::note_nonfinite() {
  int source = -1;
  int found = 0;
  for (int rank = 0; kSummaryNumbers + rank < std::ssize(summary_); ++rank) {
    const auto bad = static_cast<int>(summary_[kSummaryNumbers + rank]);
    // Who has the sum alone is named only if nobody has the source.
    if (bad == 0 || (found != 0 && (is_source(found) || !is_source(bad)))) continue;
    source = rank;
    found = bad;
  }
  if (found == 0) return;
  const int ordinal = found < kLoss ? kLoss - found : found;
  result_.skipped = true;
  result_.reason = text(
      "reason=nonfinite rank=", source,
      " param=", found == kLoss ? "loss" : tensor_names_[static_cast<std::size_t>(ordinal - 1)]);
  result_.loss = std::nan("");
  result_.gradient_norm = std::nan("");
}

void RankWorker::update() {
  if (result_.skipped) {
    device_.run(device_.zero_ops());
    return device_.synchronize(deadline());
  }
  const auto scalars = adamw_scalars(options_.optimizer, result_.learning_rate, update_,
                                     {summary_[kTokens], summary_[kSquareSum]});
  device_.queue().upload(std::as_bytes(std::span(scalars)), device_.view(rank_.scalars));
  device_.run(device_.update_ops());
  device_.run(device_.zero_ops());
  device_.synchronize(deadline());
}

void RankWorker::share_parameters() {
  gradient_sums_->share_parameters(deadline());
  device_.run(device_.copy_ops());
  device_.synchronize(deadline());
}

}  // namespace hethub
