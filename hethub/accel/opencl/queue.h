#pragma once

#include <string>

#include "hethub/accel/backend.h"
#include "hethub/accel/opencl/handle.h"
#include "hethub/base/host_pages.h"

namespace hethub::opencl {

/// One buffer object. Views of it are the object and an offset; there are no sub-buffers.
class OpenclBuffer final : public Buffer {
 public:
  /// `pages` is the host memory that the object lies in, if not the driver's. `total` is the
  /// owner's count of allocated bytes; it outlives the buffer.
  OpenclBuffer(HostPages pages, Memory memory, std::int64_t bytes, std::int64_t& total);
  ~OpenclBuffer() override { total_ -= bytes(); }

  std::byte* host_data() override { return nullptr; }
  cl_mem memory() const { return memory_.get(); }

 private:
  HostPages pages_;
  Memory memory_;  // given back before the pages
  std::int64_t& total_;
};

/// The buffer object under a view. Throws kInvalidArgument if it is another backend's.
cl_mem memory_of(const View& view, std::string_view subject);

/// A marker in a queue; the one recorded before is released.
class OpenclEvent final : public Event {
 public:
  bool done() override;
  void wait(Deadline deadline) override;
  void record(cl_command_queue queue);

 private:
  Marker marker_;
};

/// An in-order command queue.
class OpenclQueue final : public Queue {
 public:
  explicit OpenclQueue(CommandQueue queue) : queue_(std::move(queue)) {}
  ~OpenclQueue() override;

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override;
  void copy(View from, View to) override;
  void upload(std::span<const std::byte> from, View to) override;
  void download(View from, std::span<std::byte> to) override;
  void record(Event& event) override;
  void synchronize(Deadline deadline) override;

 private:
  CommandQueue queue_;
  OpenclEvent last_;
};

}  // namespace hethub::opencl
