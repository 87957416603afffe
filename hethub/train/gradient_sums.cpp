#include "hethub/train/gradient_sums.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "hethub/base/clock.h"

namespace hethub {

GradientSums::GradientSums(const GradientSumsOptions& options)
    : options_(options), rank_(*options.rank), device_(*options.device) {
  for (std::unique_ptr<Event>& event : pace_) {
    event = device_.backend().make_event();
    device_.queue().record(*event);
  }
  make_groups();
  make_buckets();
}

// Groups are numbered in the order in which the segments name them, which all ranks agree on.
void GradientSums::make_groups() {
  for (const Segment& segment : *options_.segments) {
    if (!segment.is_shared()) continue;
    const std::vector<int>& ranks = segment.ranks;
    const auto number = numbers_.try_emplace(ranks, static_cast<int>(numbers_.size()) + 1).first;
    const bool mine = std::find(ranks.begin(), ranks.end(), rank_.rank) != ranks.end();
    if (!mine || groups_.contains(ranks)) continue;
    groups_[ranks] =
        std::make_unique<Communicator>(CommunicatorOptions{options_.port, ranks, number->second});
  }
}

void GradientSums::make_buckets() {
  for (const GradientBucket& bucket : rank_.buckets) {
    const HeldSegment& held = rank_.segments[bucket.held];
    const Segment& segment = (*options_.segments)[held.segment];
    Communicator& group = *groups_.at(segment.ranks);
    buckets_.push_back(
        {.group = &group,
         .gradients = segment.scattered
                          ? nullptr
                          : group.prepare(gradient_algorithm(segment), segment.owned, DType::kF32),
         .parameters = group.prepare(parameter_algorithm(segment), segment.owned, DType::kF32),
         .gradient_view = device_.view(held.gradients),
         .parameter_view = device_.view(held.parameters),
         .checked = device_.backend().make_event()});
  }
}

void GradientSums::begin_step(const ActionObserver& observer, int first_slot) {
  queued_ = checked_ = summed_ = 0;
  summing_ = false;
  nonfinite_ = 0;
  observer_ = observer;
  first_slot_ = first_slot;
}

void GradientSums::run(int program, Phase phase, int micro_batch) {
  int first = 0;
  for (; queued_ < buckets(); queue_check()) {
    const BucketReady& ready = rank_.buckets[queued_].ready;
    const bool is_now =
        ready.program == program && ready.phase == phase && ready.micro_batch == micro_batch;
    if (!is_now) break;
    run_beside(program, phase, micro_batch, first, ready.instruction + 1);
    first = ready.instruction + 1;
  }
  const auto last = static_cast<int>(rank_.programs[program].phase(phase).size());
  run_beside(program, phase, micro_batch, first, last);
}

// Beside a sum no more than two instructions are queued, so that its additions get their turn.
void GradientSums::run_beside(int program, Phase phase, int micro_batch, int first, int last) {
  if (!busy()) return device_.run(program, phase, micro_batch, first, last);
  for (; first < last; ++first) {
    device_.run(program, phase, micro_batch, first, first + 1);
    device_.queue().record(*pace_[turn_]);
    turn_ = 1 - turn_;
    pace_[turn_]->wait(deadline());
    advance();
  }
}

void GradientSums::queue_check() {
  if (queued_ == 0 && options_.before_check) options_.before_check();
  Bucket& bucket = buckets_[queued_];
  device_.run_check(queued_);
  device_.queue().download(device_.view(rank_.check_sums).slice(std::int64_t{4} * queued_, 4),
                           std::as_writable_bytes(std::span(&bucket.check_sum, 1)));
  device_.queue().record(*bucket.checked);
  ++queued_;
}

// A sum that is not finite is found before it spreads to the other holders.
void GradientSums::examine() {
  const float sum = buckets_[checked_].check_sum;
  if (!std::isfinite(sum)) {
    const int tensor = options_.find_nonfinite(rank_.buckets[checked_]);
    if (tensor > 0 && (nonfinite_ == 0 || tensor < nonfinite_)) nonfinite_ = tensor;
  }
  ++checked_;
}

void GradientSums::start_sum() {
  Bucket& bucket = buckets_[summed_];
  if (bucket.gradients == nullptr) {  // it was summed after each micro-batch
    ++summed_;
    return;
  }
  sum_began_s_ = seconds_now();
  request_ = bucket.group->start(
      *bucket.gradients,
      {.data = bucket.gradient_view,
       .scratch = device_.view(rank_.scratch).slice(0, bucket.gradients->scratch_bytes())});
  summing_ = true;
}

void GradientSums::end_sum() {
  summing_ = false;
  if (observer_) observer_(first_slot_ + summed_, sum_began_s_, seconds_now());
  ++summed_;
}

void GradientSums::advance() {
  while (checked_ < queued_ && buckets_[checked_].checked->done()) {
    examine();
  }
  if (summing_ && request_.test()) end_sum();
  if (!summing_ && summed_ < checked_) start_sum();
}

int GradientSums::finish_checks(Deadline deadline) {
  if (buckets_.empty() && options_.before_check) options_.before_check();
  while (queued_ < buckets()) {
    queue_check();
  }
  while (checked_ < buckets()) {
    buckets_[checked_].checked->wait(deadline);
    examine();
  }
  return nonfinite_;
}

void GradientSums::finish(Deadline deadline) {
  while (summed_ < buckets()) {
    if (!summing_) start_sum();
    if (!summing_) continue;
    request_.wait(deadline);
    end_sum();
  }
  device_.synchronize(deadline);
  observer_ = nullptr;
}

void GradientSums::share_parameters(Deadline deadline) {
  for (Bucket& bucket : buckets_) {
    bucket.group->run(*bucket.parameters, bucket.parameter_view,
                      device_.view(rank_.scratch).slice(0, bucket.parameters->scratch_bytes()),
                      deadline);
  }
  device_.synchronize(deadline);
}

}  // namespace hethub
