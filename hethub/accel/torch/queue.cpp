#include "hethub/accel/torch/queue.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "hethub/accel/backend_tools.h"
#include "hethub/accel/torch/device.h"
#include "hethub/accel/torch/ops.h"
#include "hethub/base/error.h"

namespace hethub::torch_backend {
namespace {

constexpr std::string_view kQueuedWork = "queued work";

c10::Stream stream_of(at::Device device) {
  if (device.is_cpu()) return c10::Stream(c10::Stream::DEFAULT, device);
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// A tensor over a part of a buffer, made without the dispatcher: a step makes thousands.
at::Tensor tensor_at(const View& view, const TensorSpec& spec) {
  const at::Tensor& bytes = static_cast<TorchBuffer*>(view.buffer)->tensor();
  const auto type = at::scalarTypeToTypeMeta(scalar_type_of(spec.dtype));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(bytes.storage()),
                                                               bytes.key_set(), type);
  c10::TensorImpl* made = tensor.unsafeGetTensorImpl();
  made->set_storage_offset(view.offset / size_of(spec.dtype));
  made->set_sizes_contiguous(spec.shape);
  return tensor;
}

at::Tensor bytes_at(const View& view) {
  return static_cast<TorchBuffer*>(view.buffer)->tensor().narrow(0, view.offset, view.bytes);
}

at::Tensor host_bytes(const std::byte* from, std::size_t bytes) {
  return at::from_blob(const_cast<std::byte*>(from), {static_cast<std::int64_t>(bytes)},
                       at::TensorOptions().dtype(at::kByte));
}

}  // namespace

bool TorchEvent::done() {
  return !event_ || translated(kQueuedWork, [&] { return event_->query(); });
}

void TorchEvent::wait(Deadline deadline) {
  wait_until_done("torch", *this, deadline,
                  "see whether the device still answers, or raise --timeout");
}

void TorchEvent::record(const c10::Stream& stream) {
  if (event_) translated(kQueuedWork, [&] { event_->record(stream); });
}

TorchQueue::TorchQueue(at::Device device, int threads)
    : threads_(threads), stream_(stream_of(device)), last_(device) {}

// Each thread that calls has a number of threads of its own.
void TorchQueue::begin() const {
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
}

void TorchQueue::run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
                     View /*workspace*/) {
  begin();
  const auto& prepared = static_cast<const TorchOp&>(op);
  const c10::InferenceMode no_gradients;
  const c10::StreamGuard guard(stream_);
  translated(prepared.name(), [&] {
    Tensors tensors;
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      tensors.in.at(input) = tensor_at(inputs[input], prepared.facts().inputs[input]);
    }
    for (std::size_t output = 0; output < outputs.size(); ++output) {
      tensors.out.at(output) = tensor_at(outputs[output], prepared.facts().outputs[output].spec);
    }
    prepared.run(tensors);
  });
}

void TorchQueue::copy(View from, View to) {
  if (from.bytes == 0) return;
  const c10::InferenceMode no_gradients;
  const c10::StreamGuard guard(stream_);
  translated("copy", [&] { bytes_at(to).copy_(bytes_at(from), true); });
}

void TorchQueue::upload(std::span<const std::byte> from, View to) {
  if (from.empty()) return;
  const c10::InferenceMode no_gradients;
  const c10::StreamGuard guard(stream_);
  translated("upload", [&] { bytes_at(to).copy_(host_bytes(from.data(), from.size()), true); });
}

void TorchQueue::download(View from, std::span<std::byte> to) {
  if (to.empty()) return;
  const c10::InferenceMode no_gradients;
  const c10::StreamGuard guard(stream_);
  translated("download", [&] { host_bytes(to.data(), to.size()).copy_(bytes_at(from), true); });
}

void TorchQueue::record(Event& event) { static_cast<TorchEvent&>(event).record(stream_); }

void TorchQueue::synchronize(Deadline deadline) {
  last_.record(stream_);
  last_.wait(deadline);
}

}  // namespace hethub::torch_backend
