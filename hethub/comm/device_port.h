#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/base/host_pages.h"
#include "hethub/comm/messenger.h"
#include "hethub/comm/request.h"
#include "hethub/comm/route.h"

namespace hethub {

/// Work that moves on only when it is asked to: a collective that has been started.
class Progressing {
 public:
  /// Goes as far as it can without waiting; true when it has ended.
  virtual bool advance() = 0;

 protected:
  ~Progressing() = default;
};

/// What ties a rank's device to its messages. All pointers outlive the port.
struct DevicePortOptions {
  Messenger* messenger = nullptr;
  Backend* backend = nullptr;
  Queue* queue = nullptr;          ///< the queue whose work makes and uses what is sent
  int requests = 64;               ///< most messages under way at once
  std::int64_t staging_bytes = 0;  ///< the largest message, where the route stages messages
  int staging_slots = 8;           ///< most staged messages under way at once
  bool force_host_staged = false;  ///< take the slow route even where the CPU addresses memory
  /// Most that queued work may take before its message leaves, or before the memory of a call that
  /// has failed is free. A device that takes longer hangs, and keeps the memory.
  double device_timeout_s = 300;
};

/// Point-to-point messages from and to the memory of one rank's device.
///
/// A send leaves when the work queued before it is done, a receive writes its memory only then:
/// the caller queues work, sends and receives in one order, and need not wait in between.
/// Threads: one, that of the queue. Nothing is allocated after construction.
class DevicePort : private Pending {
 public:
  explicit DevicePort(const DevicePortOptions& options);
  ~DevicePort();
  // Requests know where it lies.
  DevicePort(const DevicePort&) = delete;
  DevicePort& operator=(const DevicePort&) = delete;

  /// `peer` is a rank of the world. Throws kOutOfMemory above the numbers of the options.
  Request send(int peer, Tag tag, View from, Operation operation);
  Request recv(int peer, Tag tag, View to, Operation operation);

  Messenger& messenger() const { return *options_.messenger; }
  Backend& backend() const { return *options_.backend; }
  Queue& queue() const { return *options_.queue; }
  Route& route() const { return *route_; }

  /// What is begun here moves on whenever any request of this rank waits: ranks that wait for their
  /// requests in different orders then do not wait for each other. Each is begun once and ended
  /// once.
  void begin(Progressing& work) { progressing_.push_back(&work); }
  void end(Progressing& work) { std::erase(progressing_, &work); }
  std::size_t under_way() const { return progressing_.size(); }

  /// Waits until the device has done what was queued, or hangs. What has failed calls it before it
  /// says so.
  void settle() noexcept;

  /// Moves on all that is under way.
  void advance_all();

  /// Moves on all that is under way, and waits for messages, until `ended()` is true. At the
  /// deadline it is still false: the caller says what did not end.
  void advance_until(const std::function<bool()>& ended, Deadline deadline);

 private:
  enum class Stage : std::uint8_t { kFree, kDeviceWorks, kPosted, kFailed };
  struct Entry {
    Stage stage = Stage::kFree;
    bool sends = false;
    bool abandoned = false;  // cancelled while the device still works
    int peer = -1;
    Tag tag = {};
    View view = {};
    std::span<std::byte> host = {};
    int slot = -1;  // of staging
    std::unique_ptr<Event> ready = {};
    Handle handle = {};
    Operation operation = {};
    std::uint64_t flight = 0;  // in the recorder
  };
  struct StagingSlot {
    bool used = false;
    bool uploading = false;
    std::unique_ptr<Event> uploaded = {};
  };

  Entry& entry(int index) { return entries_[static_cast<std::size_t>(index)]; }
  Request start(Entry wanted);
  int take_entry();
  int take_slot(std::int64_t bytes);
  void post(Entry& entry) const;
  bool ended(int index);
  void await(int index, Deadline deadline);
  void finish(int index);
  bool test(int index) override;
  void wait(int index, Deadline deadline) override;
  void cancel(int index) noexcept override;
  void run_departures();
  void depart(Entry& next, std::unique_lock<std::mutex>& lock);

  DevicePortOptions options_;
  std::unique_ptr<Route> route_;
  HostPages staging_;
  std::vector<StagingSlot> slots_;
  std::vector<Entry> entries_;
  // Entries whose device work is not done, in the order of their calls.
  std::vector<int> departures_;
  std::size_t departures_begin_ = 0;
  std::size_t departures_count_ = 0;
  bool closing_ = false;
  std::exception_ptr device_failure_ = {};
  std::vector<Progressing*> progressing_ = {};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace hethub
