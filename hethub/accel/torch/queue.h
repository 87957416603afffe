#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "hethub/accel/backend.h"
#include "hethub/base/host_pages.h"

namespace hethub::torch_backend {

/// Bytes of one device as a tensor. On the CPU they lie in huge pages of ours.
class TorchBuffer final : public Buffer {
 public:
  TorchBuffer(HostPages pages, at::Tensor bytes)
      : Buffer(bytes.numel()), pages_(std::move(pages)), bytes_(std::move(bytes)) {}

  std::byte* host_data() override { return pages_.data(); }
  const at::Tensor& tensor() const { return bytes_; }

 private:
  HostPages pages_;
  at::Tensor bytes_;  // let go before the pages
};

/// On the CPU work is done when its call returns; elsewhere it is an event in a stream.
class TorchEvent final : public Event {
 public:
  explicit TorchEvent(at::Device device) {
    if (!device.is_cpu()) event_.emplace(device.type());
  }
  bool done() override;
  void wait(Deadline deadline) override;
  void record(const c10::Stream& stream);

 private:
  std::optional<c10::Event> event_ = {};
};

/// A stream of the device. `threads` is what the CPU computes with.
class TorchQueue final : public Queue {
 public:
  TorchQueue(at::Device device, int threads);

  void run(PreparedOp& op, std::span<const View> inputs, std::span<const View> outputs,
           View workspace) override;
  void copy(View from, View to) override;
  void upload(std::span<const std::byte> from, View to) override;
  void download(View from, std::span<std::byte> to) override;
  void record(Event& event) override;
  void synchronize(Deadline deadline) override;

 private:
  void begin() const;

  int threads_;
  c10::Stream stream_;
  TorchEvent last_;
};

}  // namespace hethub::torch_backend
