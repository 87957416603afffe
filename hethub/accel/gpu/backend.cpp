#include "hethub/accel/backend_tools.h"
#include "hethub/accel/gpu/ops.h"
#include "hethub/accel/gpu/runtime.h"
#include "hethub/accel/plugin/serve.h"
#include "hethub/base/error.h"

namespace hethub {
namespace gpu {
namespace {

class GpuBuffer final : public Buffer {
 public:
  GpuBuffer(void* memory, std::int64_t bytes) : Buffer(bytes), memory_(memory) {}
  ~GpuBuffer() override { release(memory_); }

  std::byte* host_data() override { return nullptr; }
  std::byte* memory() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_;
};

// The edge of the plug-in lets none but this backend's own objects in.
std::byte* address_of(const View& view) {
  if (view.buffer == nullptr) return nullptr;
  return static_cast<GpuBuffer*>(view.buffer)->memory() + view.offset;
}

class GpuEvent final : public Event {
 public:
  explicit GpuEvent(int device) : device_(device) {
    use(device);
    event_ = make_event();
  }
  ~GpuEvent() override { free_event(event_); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  bool done() override {
    use(device_);
    return is_done(event_);
  }
  void wait(Deadline deadline) override {
    wait_until_done(kVendor, *this, deadline,
                    "see whether the device still answers, or raise --timeout");
  }
  void* get() const { return event_; }

 private:
  int device_;
  void* event_ = nullptr;
};

class GpuQueue final : public Queue {
 public:
  explicit GpuQueue(int device) : device_(device), last_(device) {
    stream_ = make_stream();
    try {
      matrices_ = open_matrices(stream_);
    } catch (const Error&) {
      free_stream(stream_);
      throw;
    }
  }
  ~GpuQueue() override {
    matrices_.reset();
    free_stream(stream_);
  }
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override {
    use(device_);
    Operands operands{.workspace = address_of(workspace)};
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      operands.in.at(input) = address_of(inputs[input]);
    }
    for (std::size_t output = 0; output < outputs.size(); ++output) {
      operands.out.at(output) = address_of(outputs[output]);
    }
    static_cast<const GpuOp&>(op).run(stream_, matrices_.get(), operands);
  }
  void copy(View from, View to) override { move(address_of(to), address_of(from), to.bytes); }
  void upload(std::span<const std::byte> from, View to) override {
    move(address_of(to), from.data(), to.bytes);
  }
  void download(View from, std::span<std::byte> to) override {
    move(to.data(), address_of(from), from.bytes);
  }
  void record(Event& event) override {
    use(device_);
    gpu::record(static_cast<GpuEvent&>(event).get(), stream_);
  }
  void synchronize(Deadline deadline) override {
    record(last_);
    last_.wait(deadline);
  }

 private:
  void move(void* to, const void* from, std::int64_t bytes) {
    if (bytes == 0) return;
    use(device_);
    gpu::copy(to, from, bytes, stream_);
  }

  int device_;
  GpuEvent last_;
  void* stream_ = nullptr;
  std::unique_ptr<Matrices> matrices_ = {};
};

DeviceInfo info_of(int device) {
  const Device found = describe(device);
  return {.backend = kVendor,
          .kind = kVendor,
          .name = found.name,
          .memory_bytes = found.memory_bytes,
          .driver = found.driver};
}

class GpuBackend final : public Backend {
 public:
  explicit GpuBackend(int device) : device_(device), zeros_(device) {}

  DeviceInfo info() const override { return info_of(device_); }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    require(bytes >= 0, {.what = text(kVendor, ": size of a buffer"),
                         .found = text(bytes),
                         .expected = "0 or more bytes",
                         .fix = "correct the sizes of the program"});
    use(device_);
    auto buffer = std::make_unique<GpuBuffer>(gpu::allocate(bytes), bytes);
    fill_with_zeros(buffer->memory(), bytes, nullptr);
    zeros_.wait_for_all();
    return buffer;
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<GpuQueue>(device_); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<GpuEvent>(device_); }
  std::unique_ptr<PreparedOp> prepare(const Op& op) override { return prepare_gpu_op(op); }

 private:
  // Waits until the default stream is empty.
  struct Zeros {
    explicit Zeros(int device) : event(device) {}
    GpuEvent event;
    void wait_for_all() {
      constexpr double kSeconds = 60;
      gpu::record(event.get(), nullptr);
      event.wait(after_seconds(kSeconds));
    }
  };

  int device_;
  Zeros zeros_;
};

}  // namespace
}  // namespace gpu

std::unique_ptr<Backend> open_served(const BackendOptions& options) {
  std::string problem;
  const int count = gpu::count_devices(problem);
  if (options.device < 0 || options.device >= count || !options.device_type.empty()) {
    throw Error(ErrorCode::kUnavailable,
                {.what = text(gpu::kVendor, ": device ", options.device),
                 .found = count == 0 ? problem : text(options.device_type, " ", options.device),
                 .expected = count == 0 ? "a device" : text("0 to ", count - 1),
                 .fix = "see `hethub devices`"});
  }
  return std::make_unique<gpu::GpuBackend>(options.device);
}

std::vector<FoundDevice> find_served() {
  std::string problem;
  const int count = gpu::count_devices(problem);
  if (count == 0) {
    return {{.backend = gpu::kVendor,
             .info = {.backend = gpu::kVendor, .kind = gpu::kVendor},
             .problem = problem}};
  }
  std::vector<FoundDevice> found;
  for (int device = 0; device < count; ++device) {
    found.push_back({.backend = gpu::kVendor, .device = device, .info = gpu::info_of(device)});
  }
  return found;
}

}  // namespace hethub
