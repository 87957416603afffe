#pragma once

#include <memory>
#include <span>
#include <vector>

#include "hethub/base/deadline.h"
#include "hethub/comm/device_port.h"
#include "hethub/comm/messenger.h"
#include "tests/ranks/slow_backend.h"

namespace hethub {

/// A rank with all it needs, on the thread that made it: its device works late, and the CPU can
/// address its memory or not.
struct Rank {
  Rank(Messenger& messenger, bool addressable)
      : backend(addressable),
        queue(backend.make_queue()),
        port({.messenger = &messenger,
              .backend = &backend,
              .queue = queue.get(),
              .staging_bytes = 1 << 20}) {}

  std::unique_ptr<Buffer> floats(const std::vector<float>& values) {
    auto buffer = backend.allocate(std::ssize(values) * 4);
    queue->upload(std::as_bytes(std::span(values)), view(*buffer));
    queue->synchronize(after_seconds(kSeconds));
    return buffer;
  }

  std::unique_ptr<Buffer> floats(std::int64_t count, float value) {
    return floats(std::vector<float>(static_cast<std::size_t>(count), value));
  }

  std::vector<float> read(Buffer& buffer) {
    std::vector<float> values(static_cast<std::size_t>(buffer.bytes() / 4));
    queue->download(view(buffer), std::as_writable_bytes(std::span(values)));
    queue->synchronize(after_seconds(kSeconds));
    return values;
  }

  static View view(Buffer& buffer) { return {&buffer, 0, buffer.bytes()}; }

  static constexpr double kSeconds = 60;

  SlowBackend backend;
  std::unique_ptr<Queue> queue;
  DevicePort port;
};

}  // namespace hethub
