#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hethub/accel/backend.h"

namespace hethub {

/// How bytes pass between the memory of one rank's device and the messages on the wire. Which
/// route a rank takes does not change what is on the wire, so the two ends may differ.
/// Implementations: direct (the CPU can address the memory), host-staged (all others).
class Route {
 public:
  virtual ~Route() = default;

  virtual std::string_view name() const = 0;

  /// Whether messages need host memory of their own.
  virtual bool staged() const = 0;

  /// Where a message from or to `view` lies for the wire; `staging` is used if staged().
  virtual std::span<std::byte> host_of(View view, std::byte* staging) = 0;

  /// Queues what must happen before host_of(view) may be sent.
  virtual void queue_before_send(View view, std::span<std::byte> host, Queue& queue) = 0;

  /// Queues what must happen after a message has arrived in host_of(view).
  virtual void queue_after_recv(View view, std::span<std::byte> host, Queue& queue) = 0;
};

/// The best route for the memory of this backend.
std::unique_ptr<Route> route_for(Backend& backend);

/// Device -> host -> wire -> host -> device, for any backend.
std::unique_ptr<Route> make_host_staged_route();

}  // namespace hethub
