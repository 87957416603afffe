#include <algorithm>
#include <cstring>
#include <fstream>

#include <oneapi/dnnl/dnnl.h>

#include "hethub/accel/cpu/affinity.h"
#include "hethub/accel/cpu/cpu.h"
#include "hethub/accel/cpu/levels.h"
#include "hethub/accel/cpu/prepare.h"
#include "hethub/base/error.h"
#include "hethub/base/host_memory.h"
#include "hethub/base/host_pages.h"

namespace hethub {
namespace {

// The value after `key` in a file of "key: value" lines.
std::string value_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t:", key.size());
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

void require_room(std::int64_t bytes) {
  const std::int64_t free = free_host_memory_bytes();
  if (bytes <= free) return;
  throw Error(ErrorCode::kOutOfMemory,
              {.what = "cpu: memory for a buffer",
               .found = text(free, " bytes free"),
               .expected = text(bytes),
               .fix = "choose a plan that needs less on this machine, or end other programs"});
}

class CpuBuffer : public Buffer {
 public:
  explicit CpuBuffer(std::int64_t bytes)
      : Buffer(bytes), pages_(bytes, "cpu: memory for a buffer") {}
  std::byte* host_data() override { return pages_.data(); }

 private:
  HostPages pages_;
};

std::byte* address_of(const View& view) { return view.buffer->host_data() + view.offset; }

// Work is done when it is queued, so there is nothing to wait for.
class CpuEvent : public Event {
 public:
  bool done() override { return true; }
  void wait(Deadline /*deadline*/) override {}
};

class CpuQueue : public Queue {
 public:
  explicit CpuQueue(const Affinity& affinity) : affinity_(affinity) {}

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override {
    affinity_.apply();
    static_cast<CpuOp&>(op).run(inputs, outputs, workspace);
  }
  void copy(View from, View to) override {
    std::memmove(address_of(to), address_of(from), static_cast<std::size_t>(to.bytes));
  }
  void upload(std::span<const std::byte> from, View to) override {
    if (!from.empty()) std::memcpy(address_of(to), from.data(), from.size());
  }
  void download(View from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), address_of(from), to.size());
  }
  void record(Event& /*event*/) override {}
  void synchronize(Deadline /*deadline*/) override {}

 private:
  Affinity affinity_;  // its own: queues run beside each other
};

DeviceInfo cpu_info(std::string_view level) {
  const dnnl_version_t* library = dnnl_version();
  const std::string name = value_in("/proc/cpuinfo", "model name");
  return {.backend = "cpu",
          .kind = "cpu",
          .name = name.empty() ? "unnamed processor" : name,
          .memory_bytes = host_memory_bytes(),
          .driver = text("oneDNN ", library->major, ".", library->minor, ".", library->patch, ", ",
                         level, " kernels")};
}

class CpuBackend : public Backend {
 public:
  CpuBackend(const BackendOptions& options, const CpuChoices& choices)
      : level_(level_of(choices.level)), affinity_(options.threads, options.cores) {
    affinity_.apply();
  }

  DeviceInfo info() const override { return cpu_info(level_.name); }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    require(bytes >= 0, {.what = "cpu: size of a buffer",
                         .found = text(bytes),
                         .expected = "0 or more bytes",
                         .fix = "correct the sizes of the program"});
    require_room(bytes);
    return std::make_unique<CpuBuffer>(bytes);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<CpuQueue>(affinity_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }

  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    affinity_.apply();
    return prepare_cpu_op(
        {.kernels = level_.kernels, .matrices = &matrices_, .threads = affinity_.threads()}, op);
  }

 private:
  Level level_;
  Affinity affinity_;
  MatrixLibrary matrices_;
};

}  // namespace

std::unique_ptr<Backend> open_cpu(const BackendOptions& options) { return open_cpu(options, {}); }

std::unique_ptr<Backend> open_cpu(const BackendOptions& options, const CpuChoices& choices) {
  if (options.device != 0) {
    throw Error(ErrorCode::kUnavailable, {.what = "cpu: device",
                                          .found = text(options.device),
                                          .expected = "0: the processor is one device",
                                          .fix = "use device 0"});
  }
  return std::make_unique<CpuBackend>(options, choices);
}

std::vector<FoundDevice> find_cpu() {
  try {
    const Level level = level_of("");
    return {{.backend = "cpu", .device = 0, .info = cpu_info(level.name)}};
  } catch (const Error& error) {
    return {{.backend = "cpu",
             .device = 0,
             .info = {.backend = "cpu", .kind = "cpu"},
             .problem = error.what()}};
  }
}

}  // namespace hethub
