#include "hethub/accel/plugin/serve.h"

#include <array>

#include "hethub/accel/plugin/forms.h"

namespace hethub {
namespace {

// More operands than any op has.
constexpr int kMostOperands = 16;

Backend& backend_of(HethubBackend* handle) { return *reinterpret_cast<Backend*>(handle); }
Queue& queue_of(HethubQueue* handle) { return *reinterpret_cast<Queue*>(handle); }
Event& event_of(HethubEvent* handle) { return *reinterpret_cast<Event*>(handle); }
View view_of(const HethubView& view) {
  return {reinterpret_cast<Buffer*>(view.buffer), view.offset, view.bytes};
}

// Runs `work`; whatever it throws becomes the error's parts.
template <typename Work>
std::int32_t guarded(HethubError* error, Work&& work) noexcept {
  try {
    work();
    return 0;
  } catch (const Error& failure) {
    fill(*error, failure);
  } catch (const std::exception& failure) {
    fill(*error, {ErrorCode::kInternal,
                  {.what = text("plug-in ", kServedName),
                   .found = failure.what(),
                   .expected = "a call that succeeds",
                   .fix = "see whether `hethub verify` passes on this device"}});
  } catch (...) {
    fill(*error, {ErrorCode::kInternal,
                  {.what = text("plug-in ", kServedName),
                   .found = "an exception of an unknown type",
                   .expected = "a call that succeeds",
                   .fix = "see whether `hethub verify` passes on this device"}});
  }
  return 1;
}

std::int32_t find(std::int32_t line, HethubDevice* device, std::int32_t* found,
                  HethubError* error) {
  return guarded(error, [&] {
    const std::vector<FoundDevice> devices = find_served();
    *found = line >= 0 && static_cast<std::size_t>(line) < devices.size() ? 1 : 0;
    if (*found == 1) *device = form_of(devices[static_cast<std::size_t>(line)]);
  });
}

std::int32_t open(const HethubOptions* options, HethubBackend** backend, HethubError* error) {
  return guarded(error, [&] {
    auto opened = open_served({.device = options->device,
                               .threads = options->threads,
                               .cores = {options->cores, options->cores + options->core_count},
                               .device_type = options->device_type});
    *backend = reinterpret_cast<HethubBackend*>(opened.release());
  });
}

void close(HethubBackend* backend) { delete &backend_of(backend); }

std::int32_t info(HethubBackend* backend, HethubDevice* device, HethubError* error) {
  return guarded(error, [&] {
    const DeviceInfo info = backend_of(backend).info();
    *device = form_of({.backend = info.backend, .info = info});
  });
}

std::int32_t allocate(HethubBackend* backend, std::int64_t bytes, HethubBuffer** buffer,
                      void** host, HethubError* error) {
  return guarded(error, [&] {
    auto made = backend_of(backend).allocate(bytes);
    *host = made->host_data();
    *buffer = reinterpret_cast<HethubBuffer*>(made.release());
  });
}

void free_buffer(HethubBuffer* buffer) { delete reinterpret_cast<Buffer*>(buffer); }

std::int32_t make_queue(HethubBackend* backend, HethubQueue** queue, HethubError* error) {
  return guarded(error, [&] {
    *queue = reinterpret_cast<HethubQueue*>(backend_of(backend).make_queue().release());
  });
}

void free_queue(HethubQueue* queue) { delete &queue_of(queue); }

std::int32_t make_event(HethubBackend* backend, HethubEvent** event, HethubError* error) {
  return guarded(error, [&] {
    *event = reinterpret_cast<HethubEvent*>(backend_of(backend).make_event().release());
  });
}

void free_event(HethubEvent* event) { delete &event_of(event); }

std::int32_t prepare(HethubBackend* backend, const HethubOp* op, HethubPreparedOp** prepared,
                     HethubError* error) {
  return guarded(error, [&] {
    auto made = backend_of(backend).prepare(op_of(*op));
    *prepared = reinterpret_cast<HethubPreparedOp*>(made.release());
  });
}

void free_op(HethubPreparedOp* prepared) { delete reinterpret_cast<PreparedOp*>(prepared); }

std::int32_t run(HethubQueue* queue, HethubPreparedOp* op, const HethubView* inputs,
                 std::int32_t input_count, const HethubView* outputs, std::int32_t output_count,
                 const HethubView* workspace, HethubError* error) {
  return guarded(error, [&] {
    require(input_count >= 0 && input_count <= kMostOperands && output_count >= 0 &&
                output_count <= kMostOperands,
            [&] {
              return ErrorParts{.what = "plug-in: operands of an op",
                                .found = text(input_count, " and ", output_count),
                                .expected = text("0 to ", kMostOperands),
                                .fix = "pass what facts_of(op) names"};
            });
    std::array<View, kMostOperands> in = {};
    std::array<View, kMostOperands> out = {};
    for (std::int32_t input = 0; input < input_count; ++input) {
      in[static_cast<std::size_t>(input)] = view_of(inputs[input]);
    }
    for (std::int32_t output = 0; output < output_count; ++output) {
      out[static_cast<std::size_t>(output)] = view_of(outputs[output]);
    }
    queue_of(queue).run(*reinterpret_cast<PreparedOp*>(op),
                        {in.data(), static_cast<std::size_t>(input_count)},
                        {out.data(), static_cast<std::size_t>(output_count)}, view_of(*workspace));
  });
}

std::int32_t copy(HethubQueue* queue, const HethubView* from, const HethubView* to,
                  HethubError* error) {
  return guarded(error, [&] { queue_of(queue).copy(view_of(*from), view_of(*to)); });
}

std::int32_t upload(HethubQueue* queue, const void* from, const HethubView* to,
                    HethubError* error) {
  return guarded(error, [&] {
    queue_of(queue).upload(
        {static_cast<const std::byte*>(from), static_cast<std::size_t>(to->bytes)}, view_of(*to));
  });
}

std::int32_t download(HethubQueue* queue, const HethubView* from, void* to, HethubError* error) {
  return guarded(error, [&] {
    queue_of(queue).download(view_of(*from),
                             {static_cast<std::byte*>(to), static_cast<std::size_t>(from->bytes)});
  });
}

std::int32_t record(HethubQueue* queue, HethubEvent* event, HethubError* error) {
  return guarded(error, [&] { queue_of(queue).record(event_of(event)); });
}

std::int32_t synchronize(HethubQueue* queue, double seconds, HethubError* error) {
  return guarded(error, [&] { queue_of(queue).synchronize(after_seconds(seconds)); });
}

std::int32_t done(HethubEvent* event, std::int32_t* done, HethubError* error) {
  return guarded(error, [&] { *done = event_of(event).done() ? 1 : 0; });
}

std::int32_t wait(HethubEvent* event, double seconds, HethubError* error) {
  return guarded(error, [&] { event_of(event).wait(after_seconds(seconds)); });
}

constexpr HethubPlugin make_table() {
  return {.version = HETHUB_PLUGIN_VERSION,
          .bytes = sizeof(HethubPlugin),
          .name = nullptr,
          .find = find,
          .open = open,
          .close = close,
          .info = info,
          .allocate = allocate,
          .free_buffer = free_buffer,
          .make_queue = make_queue,
          .free_queue = free_queue,
          .make_event = make_event,
          .free_event = free_event,
          .prepare = prepare,
          .free_op = free_op,
          .run = run,
          .copy = copy,
          .upload = upload,
          .download = download,
          .record = record,
          .synchronize = synchronize,
          .done = done,
          .wait = wait};
}

}  // namespace
}  // namespace hethub

const HethubPlugin* hethub_plugin() {
  static const HethubPlugin table = [] {
    HethubPlugin made = hethub::make_table();
    made.name = hethub::kServedName;
    return made;
  }();
  return &table;
}
