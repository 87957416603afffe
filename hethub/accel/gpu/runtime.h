#pragma once

#include <cstdint>
#include <string>

namespace hethub::gpu {

// The few calls of a vendor's runtime that a backend needs. They throw kInternal, or kOutOfMemory,
// with the runtime's own words. Streams and events are the vendor's, as plain pointers.

/// "cuda", "hip", or "gpu-host" of the tests.
extern const char* const kVendor;

struct Device {
  std::string name = {};
  std::int64_t memory_bytes = 0;
  std::string driver = {};
};

/// How many devices there are; 0 with the reason in `problem` if the driver says no.
int count_devices(std::string& problem);
Device describe(int device);

/// What the calling thread's next calls are about.
void use(int device);

void* allocate(std::int64_t bytes);
void release(void* memory);
void fill_with_zeros(void* memory, std::int64_t bytes, void* stream);
/// Queues a copy; the two ends may be on the host or the device.
void copy(void* to, const void* from, std::int64_t bytes, void* stream);

void* make_stream();
void free_stream(void* stream);
/// Throws what the launch before it reported.
void check_launch(const std::string& op);

void* make_event();
void free_event(void* event);
void record(void* event, void* stream);
/// Whether what was queued before the record is done.
bool is_done(void* event);

}  // namespace hethub::gpu
