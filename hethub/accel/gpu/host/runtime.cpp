#include "hethub/accel/gpu/runtime.h"

#include <cstring>

#include "hethub/accel/plugin/serve.h"
#include "hethub/base/error.h"

const char* const hethub::gpu::kVendor = "gpu-host";
const char* const hethub::kServedName = "gpu-host";

namespace hethub::gpu {

int count_devices(std::string& /*problem*/) { return 1; }

Device describe(int /*device*/) {
  return {.name = "the kernels for GPUs, as loops on the CPU",
          .memory_bytes = std::int64_t{1} << 30,
          .driver = "none"};
}

void use(int /*device*/) {}

void* allocate(std::int64_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const auto size = (static_cast<std::size_t>(bytes) + kAlignment) / kAlignment * kAlignment;
  void* memory = bytes > describe(0).memory_bytes ? nullptr : std::aligned_alloc(kAlignment, size);
  if (memory == nullptr) {
    throw Error(ErrorCode::kOutOfMemory, {.what = "gpu-host: memory for a buffer",
                                          .found = text(describe(0).memory_bytes, " bytes"),
                                          .expected = text(bytes),
                                          .fix = "test with less"});
  }
  return memory;
}

void release(void* memory) { std::free(memory); }
void fill_with_zeros(void* memory, std::int64_t bytes, void* /*stream*/) {
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
}
void copy(void* to, const void* from, std::int64_t bytes, void* /*stream*/) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}
void* make_stream() { return nullptr; }
void free_stream(void* /*stream*/) {}
void check_launch(const std::string& /*op*/) {}
void* make_event() { return nullptr; }
void free_event(void* /*event*/) {}
void record(void* /*event*/, void* /*stream*/) {}
bool is_done(void* /*event*/) { return true; }

}  // namespace hethub::gpu
