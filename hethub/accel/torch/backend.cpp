#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/plugin/serve.h"
#include "hethub/accel/torch/device.h"
#include "hethub/accel/torch/ops.h"
#include "hethub/accel/torch/queue.h"
#include "hethub/base/error.h"

namespace hethub {
namespace torch_backend {
namespace {

class TorchBackend final : public Backend {
 public:
  TorchBackend(at::Device device, int threads) : device_(device), threads_(threads) {}

  DeviceInfo info() const override { return info_of(device_); }

  std::unique_ptr<Buffer> allocate(std::int64_t bytes) override {
    require(bytes >= 0, {.what = "torch: size of a buffer",
                         .found = text(bytes),
                         .expected = "0 or more bytes",
                         .fix = "correct the sizes of the program"});
    const c10::InferenceMode no_gradients;
    const auto options = at::TensorOptions().dtype(at::kByte).device(device_);
    const std::string what = text("memory for a buffer of ", bytes, " bytes");
    return translated(what, [&] {
      if (!device_.is_cpu()) {
        return std::make_unique<TorchBuffer>(HostPages(), at::zeros({bytes}, options));
      }
      HostPages pages(bytes, "torch: " + what);
      at::Tensor tensor = at::from_blob(pages.data(), {bytes}, options);
      return std::make_unique<TorchBuffer>(std::move(pages), std::move(tensor));
    });
  }
  std::unique_ptr<Queue> make_queue() override {
    return translated("queue", [&] { return std::make_unique<TorchQueue>(device_, threads_); });
  }
  std::unique_ptr<Event> make_event() override {
    return translated("event", [&] { return std::make_unique<TorchEvent>(device_); });
  }
  std::unique_ptr<PreparedOp> prepare(const Op& op) override {
    return std::make_unique<TorchOp>(op);
  }

 private:
  at::Device device_;
  int threads_;
};

}  // namespace
}  // namespace torch_backend

const char* const kServedName = "torch";

std::unique_ptr<Backend> open_served(const BackendOptions& options) {
  require(options.threads > 0, {.what = "torch: threads",
                                .found = text(options.threads),
                                .expected = "1 or more",
                                .fix = "give the rank at least one thread"});
  torch_backend::load_extensions();
  const at::Device device = torch_backend::device_of(options.device_type, options.device);
  bind_to_cores("torch", options.cores);
  return std::make_unique<torch_backend::TorchBackend>(device, options.threads);
}

std::vector<FoundDevice> find_served() {
  torch_backend::load_extensions();
  std::vector<FoundDevice> found;
  for (const at::Device device : torch_backend::list_devices()) {
    const DeviceInfo info = torch_backend::info_of(device);
    found.push_back(
        {.backend = info.backend, .device = device.is_cpu() ? 0 : device.index(), .info = info});
  }
  return found;
}

}  // namespace hethub
