#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hethub/base/deadline.h"
#include "hethub/op/op.h"

namespace hethub {

/// What a backend reports of the device it drives.
struct DeviceInfo {
  std::string backend = {};       ///< "cpu", "opencl", "cuda", "hip", "torch" or "emulated"
  std::string kind = {};          ///< the name plans and costs files use, e.g. "cpu", "opencl"
  std::string name = {};          ///< as the driver spells the device
  std::int64_t memory_bytes = 0;  ///< what the device has in all
  std::string driver = {};        ///< driver and library versions
};

/// Memory of one device, freed on destruction. Backends derive from it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::int64_t bytes() const { return bytes_; }

  /// The address if the CPU may dereference it at any time, else nullptr. There is no raw device
  /// pointer in this interface: OpenCL has none to give.
  virtual std::byte* host_data() = 0;

 protected:
  explicit Buffer(std::int64_t bytes) : bytes_(bytes) {}

 private:
  std::int64_t bytes_;
};

/// Bytes [offset, offset + bytes) of a buffer it does not own.
struct View {
  Buffer* buffer = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;

  View slice(std::int64_t from, std::int64_t length) const {
    return {buffer, offset + from, length};
  }
};

/// A point in a queue's work. Made once, recorded many times: nothing is allocated in a step.
class Event {
 public:
  virtual ~Event() = default;

  /// Whether all work queued before the last record has finished. Never blocks.
  virtual bool done() = 0;

  /// Blocks until done. Throws kTimeout after `deadline`, or the error of the work that failed.
  virtual void wait(Deadline deadline) = 0;
};

/// An op made ready to run any number of times: kernels chosen and compiled, libraries' plans made.
class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
};

/// A queue of device work. Work on one queue runs in order; queues run beside each other.
/// Threads: one at a time per queue.
class Queue {
 public:
  virtual ~Queue() = default;

  /// Queues one op. Views match facts_of(op): same order, same sizes, at 256-byte offsets unless
  /// the op works element by element (then at multiples of the element). An output that updates an
  /// input is given twice, as the same view. `workspace` has facts_of(op).workspace_bytes.
  /// Allocates nothing.
  virtual void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
                   View workspace) = 0;

  /// Queues a copy between memories of this backend; both have the same size.
  virtual void copy(View from, View to) = 0;

  /// Queue a copy from or to host memory, which must stay as it is until the work is done.
  virtual void upload(std::span<const std::byte> from, View to) = 0;
  virtual void download(View from, std::span<std::byte> to) = 0;

  /// Marks the work queued so far.
  virtual void record(Event& event) = 0;

  /// Blocks until the queue is empty. Throws kTimeout or the error of the work that failed.
  virtual void synchronize(Deadline deadline) = 0;
};

/// One accelerator. Each kind of accelerator is one implementation of this class in its own
/// folder, and passes tests/conformance unchanged.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceInfo info() const = 0;

  /// Memory of zeros, aligned to 256 bytes. Throws kOutOfMemory, naming what is free.
  virtual std::unique_ptr<Buffer> allocate(std::int64_t bytes) = 0;

  virtual std::unique_ptr<Queue> make_queue() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  /// Makes an op ready to run. May allocate, compile and try variants, but what it chooses depends
  /// only on the op and the device, so that equal runs give equal bits. Throws kUnsupported, naming
  /// the op, if the backend lacks it.
  virtual std::unique_ptr<PreparedOp> prepare(const Op& op) = 0;
};

}  // namespace hethub
