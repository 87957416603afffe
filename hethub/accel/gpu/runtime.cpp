#include "hethub/accel/gpu/runtime.h"

#include "hethub/base/error.h"
#include "vendor.h"

// HETHUB_VENDOR(Malloc) is cudaMalloc or hipMalloc: the two runtimes are alike in all that is used.

namespace hethub::gpu {
namespace {

using Status = HETHUB_VENDOR(Error_t);

void check(Status status, std::string_view what) {
  if (status == HETHUB_VENDOR(Success)) return;
  const bool memory = status == HETHUB_VENDOR(ErrorMemoryAllocation);
  throw Error(memory ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
              {.what = text(kVendor, ": ", what),
               .found = text(HETHUB_VENDOR(GetErrorName)(status), ": ",
                             HETHUB_VENDOR(GetErrorString)(status)),
               .expected = "success",
               .fix = memory ? "turn on recompute for this stage, give it fewer layers, or lower "
                               "micro_batch_size"
                             : "see whether `hethub verify` passes on this device"});
}

HETHUB_VENDOR(Stream_t) stream_of(void* stream) {
  return static_cast<HETHUB_VENDOR(Stream_t)>(stream);
}
HETHUB_VENDOR(Event_t) event_of(void* event) { return static_cast<HETHUB_VENDOR(Event_t)>(event); }

}  // namespace

int count_devices(std::string& problem) {
  int count = 0;
  const Status status = HETHUB_VENDOR(GetDeviceCount)(&count);
  if (status == HETHUB_VENDOR(Success) && count > 0) return count;
  problem = text(kVendor, ": devices, found none (", HETHUB_VENDOR(GetErrorString)(status),
                 "), expected one or more; install the driver of the GPU, or put one in");
  return 0;
}

Device describe(int device) {
  HETHUB_VENDOR(DeviceProp_t) properties = {};
  check(HETHUB_VENDOR(GetDeviceProperties)(&properties, device), "properties of a device");
  int version = 0;
  check(HETHUB_VENDOR(DriverGetVersion)(&version), "version of the driver");
  return {.name = static_cast<const char*>(properties.name),
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
          .driver = text("driver for ", kVendor, " ", version)};
}

void use(int device) { check(HETHUB_VENDOR(SetDevice)(device), "choosing a device"); }

void* allocate(std::int64_t bytes) {
  void* memory = nullptr;
  check(HETHUB_VENDOR(Malloc)(&memory, static_cast<std::size_t>(bytes)),
        text("memory for a buffer of ", bytes, " bytes"));
  return memory;
}

void release(void* memory) { (void)HETHUB_VENDOR(Free)(memory); }

void fill_with_zeros(void* memory, std::int64_t bytes, void* stream) {
  check(HETHUB_VENDOR(MemsetAsync)(memory, 0, static_cast<std::size_t>(bytes), stream_of(stream)),
        "zeros in a buffer");
}

void copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  check(HETHUB_VENDOR(MemcpyAsync)(to, from, static_cast<std::size_t>(bytes),
                                   HETHUB_VENDOR(MemcpyDefault), stream_of(stream)),
        "copy");
}

void* make_stream() {
  HETHUB_VENDOR(Stream_t) stream = nullptr;
  check(HETHUB_VENDOR(StreamCreateWithFlags)(&stream, HETHUB_VENDOR(StreamNonBlocking)), "stream");
  return stream;
}

void free_stream(void* stream) {
  (void)HETHUB_VENDOR(StreamSynchronize)(stream_of(stream));
  (void)HETHUB_VENDOR(StreamDestroy)(stream_of(stream));
}

void check_launch(const std::string& op) { check(HETHUB_VENDOR(GetLastError)(), op); }

void* make_event() {
  HETHUB_VENDOR(Event_t) event = nullptr;
  check(HETHUB_VENDOR(EventCreateWithFlags)(&event, HETHUB_VENDOR(EventDisableTiming)), "event");
  return event;
}

void free_event(void* event) { (void)HETHUB_VENDOR(EventDestroy)(event_of(event)); }

void record(void* event, void* stream) {
  check(HETHUB_VENDOR(EventRecord)(event_of(event), stream_of(stream)), "event");
}

bool is_done(void* event) {
  const Status status = HETHUB_VENDOR(EventQuery)(event_of(event));
  if (status == HETHUB_VENDOR(ErrorNotReady)) return false;
  check(status, "queued work");
  return true;
}

}  // namespace hethub::gpu
