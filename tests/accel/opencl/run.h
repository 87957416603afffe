#pragma once

#include <bit>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "hethub/accel/opencl/opencl.h"

namespace hethub {

inline Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::minutes(5); }

/// A small op's operands in one buffer, ready to run again and again.
class OpRun {
 public:
  /// `inputs` are floats, cut to bf16 where the op's facts say so, or the bits of ints.
  OpRun(Backend& backend, const Op& op, const std::vector<std::vector<float>>& inputs)
      : queue_(backend.make_queue()), prepared_(backend.prepare(op)) {
    const OpFacts facts = facts_of(op);
    std::int64_t bytes = 0;
    const auto place = [&](std::int64_t size) {
      const std::int64_t at = bytes;
      bytes += (size + 255) / 256 * 256;
      return View{.offset = at, .bytes = size};
    };
    for (const TensorSpec& input : facts.inputs) {
      inputs_.push_back(place(input.bytes()));
    }
    for (const OutputFacts& output : facts.outputs) {
      outputs_.push_back(output.updates >= 0 ? inputs_[output.updates]
                                             : place(output.spec.bytes()));
    }
    workspace_ = place(facts.workspace_bytes);
    buffer_ = backend.allocate(bytes);
    for (View& view : inputs_) {
      view.buffer = buffer_.get();
    }
    for (View& view : outputs_) {
      view.buffer = buffer_.get();
    }
    workspace_.buffer = buffer_.get();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<std::uint16_t> halves = upper_halves(inputs[i]);
      queue_->upload(facts.inputs[i].dtype == DType::kBf16 ? std::as_bytes(std::span(halves))
                                                           : std::as_bytes(std::span(inputs[i])),
                     inputs_[i]);
      queue_->synchronize(soon());
    }
    for (const OutputFacts& output : facts.outputs) {
      narrow_.push_back(output.spec.dtype == DType::kBf16);
    }
  }

  void queue_run() { queue_->run(*prepared_, inputs_, outputs_, workspace_); }

  std::vector<float> output(int index) {
    if (narrow_[index]) return widened(index);
    std::vector<float> values(outputs_[index].bytes / 4);
    queue_->download(outputs_[index], std::as_writable_bytes(std::span(values)));
    queue_->synchronize(soon());
    return values;
  }

  Queue& queue() { return *queue_; }

 private:
  static std::vector<std::uint16_t> upper_halves(const std::vector<float>& values) {
    std::vector<std::uint16_t> halves;
    for (const float value : values) {
      halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
    }
    return halves;
  }

  std::vector<float> widened(int index) {
    std::vector<std::uint16_t> halves(outputs_[index].bytes / 2);
    queue_->download(outputs_[index], std::as_writable_bytes(std::span(halves)));
    queue_->synchronize(soon());
    std::vector<float> values;
    for (const std::uint16_t half : halves) {
      values.push_back(std::bit_cast<float>(std::uint32_t{half} << 16U));
    }
    return values;
  }

  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<PreparedOp> prepared_;
  std::vector<View> inputs_;
  std::vector<View> outputs_;
  View workspace_;
  std::vector<bool> narrow_;
};

}  // namespace hethub
