#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "hethub/accel/backend.h"
#include "hethub/base/error.h"

namespace hethub {

/// A device whose work runs on a thread of its own, late: what does not wait for it reads old
/// bytes. It copies and adds f32, and its memory is addressable by the CPU or not, as asked.
class SlowBackend : public Backend {
 public:
  explicit SlowBackend(bool addressable) : addressable_(addressable) {}

  DeviceInfo info() const override { return {.backend = "slow", .kind = "slow", .name = "slow"}; }
  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    return std::make_unique<Memory>(bytes, addressable_);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<Work>(); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<Mark>(); }
  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    if (!std::holds_alternative<Accumulate>(op.body) || op.dtype != DType::kF32) {
      throw Error(ErrorCode::kUnsupported, {.what = "slow backend: op",
                                            .found = op.name,
                                            .expected = "Accumulate of f32",
                                            .fix = "use another backend"});
    }
    return std::make_unique<Addition>(std::get<Accumulate>(op.body));
  }

  static float* floats(View view) {
    return reinterpret_cast<float*>(static_cast<Memory*>(view.buffer)->bytes.data() + view.offset);
  }

 private:
  struct Addition : PreparedOp {
    explicit Addition(const Accumulate& op) : op(op) {}
    Accumulate op;
  };

  struct Memory : Buffer {
    Memory(std::int64_t size, bool addressable)
        : Buffer(size), bytes(static_cast<std::size_t>(size)), addressable(addressable) {}
    std::byte* host_data() override { return addressable ? bytes.data() : nullptr; }
    std::vector<std::byte> bytes;
    bool addressable;
  };

  // Work carries numbers; a mark is done when its number has been reached.
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t finished = 0;
  };

  struct Mark : Event {
    bool done() override {
      if (progress == nullptr) return true;
      const std::lock_guard lock(progress->mutex);
      return progress->finished >= number;
    }
    void wait(Deadline deadline) override {
      if (progress == nullptr) return;
      std::unique_lock lock(progress->mutex);
      const auto reached = [this] { return progress->finished >= number; };
      if (progress->changed.wait_until(lock, deadline, reached)) return;
      throw Error(ErrorCode::kTimeout, {.what = "slow device",
                                        .found = "work that still runs",
                                        .expected = "it to be done",
                                        .fix = "wait longer"});
    }
    Progress* progress = nullptr;
    std::int64_t number = 0;
  };

  class Work : public Queue {
   public:
    Work() : thread_([this] { run(); }) {}
    ~Work() override {
      push({});
      thread_.join();
    }
    void run(PreparedOp& prepared, std::span<const View> inputs, std::span<const View> outputs,
             View) override {
      push([op = static_cast<Addition&>(prepared).op, total = outputs[0], add = inputs[1]] {
        for (std::int64_t i = 0; i < op.terms * op.count; ++i) {
          floats(total)[i % op.count] += floats(add)[i / op.count * op.stride + i % op.count];
        }
      });
    }
    void copy(View from, View to) override {
      push([from, to] { std::memmove(floats(to), floats(from), from.bytes); });
    }
    void upload(std::span<const std::byte> from, View to) override {
      push([from, to] { std::memcpy(floats(to), from.data(), from.size()); });
    }
    void download(View from, std::span<std::byte> to) override {
      push([from, to] { std::memcpy(to.data(), floats(from), to.size()); });
    }
    void record(Event& event) override {
      auto& mark = static_cast<Mark&>(event);
      mark.progress = &progress_;
      mark.number = pushed_;
    }
    void synchronize(Deadline deadline) override {
      Mark mark;
      record(mark);
      mark.wait(deadline);
    }

   private:
    void push(std::function<void()> work) {
      const std::lock_guard lock(progress_.mutex);
      work_.push_back(std::move(work));
      ++pushed_;
      progress_.changed.notify_all();
    }
    void run() {
      while (true) {
        std::unique_lock lock(progress_.mutex);
        progress_.changed.wait(lock, [this] { return !work_.empty(); });
        const auto work = std::move(work_.front());
        work_.pop_front();
        lock.unlock();
        if (!work) return;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        work();
        lock.lock();
        ++progress_.finished;
        progress_.changed.notify_all();
      }
    }

    Progress progress_;
    std::deque<std::function<void()>> work_;
    std::int64_t pushed_ = 0;
    std::thread thread_;
  };

  bool addressable_;
};

}  // namespace hethub
