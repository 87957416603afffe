#include "hethub/comm/device_port.h"

#include <functional>
#include <utility>

#include "hethub/base/error.h"

namespace hethub {

DevicePort::DevicePort(const DevicePortOptions& options)
    : options_(options),
      route_(options.force_host_staged ? make_host_staged_route() : route_for(*options.backend)),
      staging_(route_->staged() ? options.staging_slots * options.staging_bytes : 0,
               "host memory for messages"),
      slots_(static_cast<std::size_t>(route_->staged() ? options.staging_slots : 0)),
      entries_(static_cast<std::size_t>(options.requests)),
      departures_(static_cast<std::size_t>(options.requests)) {
  for (StagingSlot& slot : slots_) {
    slot.uploaded = options_.backend->make_event();
  }
  for (Entry& entry : entries_) {
    entry.ready = options_.backend->make_event();
  }
  progressing_.reserve(entries_.size());
  thread_ = std::thread([this] { run_departures(); });
}

DevicePort::~DevicePort() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (route_->staged()) settle();  // what arrived last may still be on its way to the device
}

Request DevicePort::send(int peer, Tag tag, View from, Operation operation) {
  return start({.sends = true, .peer = peer, .tag = tag, .view = from, .operation = operation});
}

Request DevicePort::recv(int peer, Tag tag, View to, Operation operation) {
  return start({.sends = false, .peer = peer, .tag = tag, .view = to, .operation = operation});
}

Request DevicePort::start(Entry wanted) {
  const std::lock_guard lock(mutex_);
  if (device_failure_) std::rethrow_exception(device_failure_);
  const int slot = route_->staged() ? take_slot(wanted.view.bytes) : -1;
  const int index = take_entry();
  Entry& taken = entry(index);
  wanted.ready = std::move(taken.ready);
  taken = std::move(wanted);
  taken.slot = slot;
  taken.flight = options_.messenger->recorder().begin(
      taken.sends ? FlightKind::kSend : FlightKind::kRecv, taken.tag, taken.peer, taken.view.bytes);
  std::byte* staging = slot < 0 ? nullptr : staging_.data() + slot * options_.staging_bytes;
  taken.host = route_->host_of(taken.view, staging);
  if (slot >= 0) slots_[static_cast<std::size_t>(slot)].used = true;

  if (taken.sends) route_->queue_before_send(taken.view, taken.host, *options_.queue);
  const bool waits_for_device = taken.sends || !route_->staged();
  bool ready = !waits_for_device;
  if (waits_for_device) {
    options_.queue->record(*taken.ready);
    ready = departures_count_ == 0 && taken.ready->done();
  }
  if (ready) {
    post(taken);
  } else {
    taken.stage = Stage::kDeviceWorks;
    departures_[(departures_begin_ + departures_count_) % departures_.size()] = index;
    ++departures_count_;
    changed_.notify_all();
  }
  return {this, index};
}

int DevicePort::take_entry() {
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    if (entries_[index].stage == Stage::kFree) return static_cast<int>(index);
  }
  throw Error(ErrorCode::kOutOfMemory, {.what = "messages of one device under way at once",
                                        .found = text(entries_.size(), " and one more"),
                                        .expected = text("at most ", entries_.size()),
                                        .fix = "wait for earlier requests, or raise `requests`"});
}

int DevicePort::take_slot(std::int64_t bytes) {
  require(bytes <= options_.staging_bytes, [&] {
    return ErrorParts{.what = "a message through host memory",
                      .found = text(bytes, " bytes"),
                      .expected = text("at most ", options_.staging_bytes),
                      .fix = "raise `staging_bytes` to the largest message"};
  });
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].used) return static_cast<int>(slot);
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].uploading) continue;
    slots_[slot].uploaded->wait(after_seconds(options_.device_timeout_s));
    slots_[slot] = {.uploaded = std::move(slots_[slot].uploaded)};
    return static_cast<int>(slot);
  }
  throw Error(ErrorCode::kOutOfMemory,
              {.what = "staged messages under way at once",
               .found = text(slots_.size(), " and one more"),
               .expected = text("at most ", slots_.size()),
               .fix = "wait for earlier requests, or raise `staging_slots`"});
}

// Precondition: the lock is held, and the device is done with the memory.
void DevicePort::post(Entry& posted) const {
  Messenger& messenger = *options_.messenger;
  posted.handle = posted.sends ? messenger.post_send(posted.peer, posted.tag, posted.host)
                               : messenger.post_recv(posted.peer, posted.tag, posted.host);
  posted.stage = Stage::kPosted;
}

// The message has ended: uploads what arrived and gives back what it held.
void DevicePort::finish(int index) {
  Entry& ended = entry(index);
  options_.messenger->recorder().end(ended.flight, FlightState::kDone);
  if (ended.slot >= 0) {
    StagingSlot& slot = slots_[static_cast<std::size_t>(ended.slot)];
    if (ended.sends) {
      slot.used = false;
    } else {
      route_->queue_after_recv(ended.view, ended.host, *options_.queue);
      options_.queue->record(*slot.uploaded);
      slot.uploading = true;
    }
  }
  ended.stage = Stage::kFree;
}

bool DevicePort::test(int index) {
  try {
    return ended(index);
  } catch (const Error&) {
    cancel(index);
    throw;
  }
}

bool DevicePort::ended(int index) {
  const std::lock_guard lock(mutex_);
  Entry& tested = entry(index);
  if (tested.stage == Stage::kFailed) std::rethrow_exception(device_failure_);
  if (tested.stage == Stage::kDeviceWorks) return false;
  if (!options_.messenger->test(tested.handle, tested.operation)) return false;
  finish(index);
  return true;
}

void DevicePort::settle() noexcept {
  try {
    options_.queue->synchronize(after_seconds(options_.device_timeout_s));
  } catch (const Error&) {
    // It hangs or is broken: the first failure, which is being told, says more.
    return;
  }
}

void DevicePort::advance_all() {
  for (std::size_t at = 0; at < progressing_.size();) {
    Progressing* const work = progressing_[at];
    work->advance();
    if (at < progressing_.size() && progressing_[at] == work) ++at;
  }
}

void DevicePort::advance_until(const std::function<bool()>& ended, Deadline deadline) {
  // A device tells nobody that it is done, so it is asked again after so long.
  constexpr double kAskDeviceAgain_s = 0.001;
  while (true) {
    const std::uint64_t seen = options_.messenger->changes();
    advance_all();
    if (ended() || std::chrono::steady_clock::now() >= deadline) return;
    options_.messenger->wait_for_change(seen, std::min(deadline, after_seconds(kAskDeviceAgain_s)));
  }
}

void DevicePort::wait(int index, Deadline deadline) {
  try {
    await(index, deadline);
  } catch (const Error&) {
    cancel(index);
    throw;
  }
}

void DevicePort::await(int index, Deadline deadline) {
  if (!progressing_.empty()) {
    bool done = false;
    const auto has_ended = [&] { return done = done || ended(index); };
    // By reference: a std::function would take memory for three words.
    advance_until(std::cref(has_ended), deadline);
    if (done) return;
  }
  std::unique_lock lock(mutex_);
  Entry& waited = entry(index);
  const auto left = [&] { return waited.stage != Stage::kDeviceWorks; };
  if (!changed_.wait_until(lock, deadline, left)) {
    const Error error(ErrorCode::kTimeout,
                      {.what = text("rank ", options_.messenger->rank(), ": ",
                                    waited.operation.name, ": the device's work before a message"),
                       .found = "it still runs at the deadline",
                       .expected = "it to be done",
                       .fix = "see whether the device hangs, or raise the timeout"});
    options_.messenger->abort(error);
    throw Error(error);
  }
  if (waited.stage == Stage::kFailed) std::rethrow_exception(device_failure_);
  const Handle handle = waited.handle;
  const Operation operation = waited.operation;
  lock.unlock();
  options_.messenger->wait(handle, deadline, operation);
  lock.lock();
  finish(index);
}

void DevicePort::cancel(int index) noexcept {
  std::unique_lock lock(mutex_);
  Entry& cancelled = entry(index);
  options_.messenger->recorder().end(cancelled.flight, FlightState::kFailed);
  if (cancelled.stage == Stage::kDeviceWorks) {
    cancelled.abandoned = true;  // the departures' thread gives it back
    lock.unlock();
    if (cancelled.slot >= 0) settle();  // the copy to host memory
    return;
  }
  if (cancelled.stage == Stage::kPosted) options_.messenger->cancel(cancelled.handle);
  if (cancelled.slot >= 0) slots_[static_cast<std::size_t>(cancelled.slot)].used = false;
  cancelled.stage = Stage::kFree;
}

// Posts each message when the device is done with its memory, in the order of the calls.
void DevicePort::run_departures() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || departures_count_ > 0; });
    if (departures_count_ == 0) return;
    Entry& next = entry(departures_[departures_begin_]);
    try {
      depart(next, lock);
    } catch (const Error& error) {
      if (!lock.owns_lock()) lock.lock();
      device_failure_ = std::current_exception();
      next.stage = Stage::kFailed;
      options_.messenger->abort(error);
    }
    departures_begin_ = (departures_begin_ + 1) % departures_.size();
    --departures_count_;
    changed_.notify_all();
  }
}

void DevicePort::depart(Entry& next, std::unique_lock<std::mutex>& lock) {
  if (!device_failure_) {
    lock.unlock();
    next.ready->wait(after_seconds(options_.device_timeout_s));
    lock.lock();
  }
  if (device_failure_) {
    next.stage = Stage::kFailed;
  } else if (next.abandoned) {
    if (next.slot >= 0) slots_[static_cast<std::size_t>(next.slot)].used = false;
    next.stage = Stage::kFree;
  } else {
    post(next);
  }
}

}  // namespace hethub
