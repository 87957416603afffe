#include "hethub/accel/opencl/queue.h"

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/opencl/launch.h"
#include "hethub/accel/opencl/status.h"
#include "hethub/base/error.h"
#include "hethub/base/text.h"

namespace hethub::opencl {
namespace {

constexpr std::string_view kQueuedWork = "queued work";

}  // namespace

OpenclBuffer::OpenclBuffer(HostPages pages, Memory memory, std::int64_t bytes, std::int64_t& total)
    : Buffer(bytes), pages_(std::move(pages)), memory_(std::move(memory)), total_(total) {
  total_ += bytes;
}

cl_mem memory_of(const View& view, std::string_view subject) {
  const auto* buffer = dynamic_cast<const OpenclBuffer*>(view.buffer);
  require(buffer != nullptr, [&] {
    return ErrorParts{.what = text("opencl: ", subject),
                      .found = view.buffer == nullptr ? "a view of no buffer"
                                                      : "a view of another backend's memory",
                      .expected = "memory of this backend",
                      .fix = "allocate it with this backend's allocate()"};
  });
  return buffer->memory();
}

bool OpenclEvent::done() {
  if (marker_.get() == nullptr) return true;
  cl_int state = CL_COMPLETE;
  check(clGetEventInfo(marker_.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state,
                       nullptr),
        "clGetEventInfo", kQueuedWork);
  if (state < 0) fail(state, "execution", kQueuedWork);
  return state == CL_COMPLETE;
}

// OpenCL's own wait has no deadline.
void OpenclEvent::wait(Deadline deadline) {
  wait_until_done("opencl", *this, deadline,
                  "see whether the device still answers (clinfo), or raise --timeout");
}

void OpenclEvent::record(cl_command_queue queue) {
  cl_event marker = nullptr;
  check(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &marker), "clEnqueueMarkerWithWaitList",
        kQueuedWork);
  marker_.reset(marker);
  check(clFlush(queue), "clFlush", kQueuedWork);
}

// Memory that queued work uses may be freed after this.
OpenclQueue::~OpenclQueue() { clFinish(queue_.get()); }

void OpenclQueue::run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
                      View workspace) {
  auto* prepared = dynamic_cast<OpenclOp*>(&op);
  require(prepared != nullptr, [&] {
    return ErrorParts{.what = "opencl: run",
                      .found = "an op prepared by another backend",
                      .expected = "one of this backend's prepare()",
                      .fix = "prepare the op with the backend that made the queue"};
  });
  prepared->enqueue(queue_.get(), {.inputs = inputs, .outputs = outputs, .workspace = workspace});
}

void OpenclQueue::copy(View from, View to) {
  require(from.bytes == to.bytes, [&] {
    return ErrorParts{.what = "opencl: copy",
                      .found = text(from.bytes, " bytes to ", to.bytes),
                      .expected = "the same size",
                      .fix = "slice both views to one size"};
  });
  if (from.bytes == 0) return;
  check(clEnqueueCopyBuffer(queue_.get(), memory_of(from, "copy"), memory_of(to, "copy"),
                            from.offset, to.offset, from.bytes, 0, nullptr, nullptr),
        "clEnqueueCopyBuffer", "copy");
}

void OpenclQueue::upload(std::span<const std::byte> from, View to) {
  require(static_cast<std::int64_t>(from.size()) == to.bytes, [&] {
    return ErrorParts{.what = "opencl: upload",
                      .found = text(from.size(), " bytes to ", to.bytes),
                      .expected = "the same size",
                      .fix = "slice both to one size"};
  });
  if (to.bytes == 0) return;
  check(clEnqueueWriteBuffer(queue_.get(), memory_of(to, "upload"), CL_FALSE, to.offset, to.bytes,
                             from.data(), 0, nullptr, nullptr),
        "clEnqueueWriteBuffer", "upload");
}

void OpenclQueue::download(View from, std::span<std::byte> to) {
  require(static_cast<std::int64_t>(to.size()) == from.bytes, [&] {
    return ErrorParts{.what = "opencl: download",
                      .found = text(from.bytes, " bytes to ", to.size()),
                      .expected = "the same size",
                      .fix = "slice both to one size"};
  });
  if (from.bytes == 0) return;
  check(clEnqueueReadBuffer(queue_.get(), memory_of(from, "download"), CL_FALSE, from.offset,
                            from.bytes, to.data(), 0, nullptr, nullptr),
        "clEnqueueReadBuffer", "download");
}

void OpenclQueue::record(Event& event) {
  auto* ours = dynamic_cast<OpenclEvent*>(&event);
  require(ours != nullptr, [&] {
    return ErrorParts{.what = "opencl: record",
                      .found = "another backend's event",
                      .expected = "one of this backend's make_event()",
                      .fix = "make the event with the backend that made the queue"};
  });
  ours->record(queue_.get());
}

void OpenclQueue::synchronize(Deadline deadline) {
  last_.record(queue_.get());
  last_.wait(deadline);
}

}  // namespace hethub::opencl
