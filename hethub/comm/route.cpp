#include "hethub/comm/route.h"

namespace hethub {
namespace {

class DirectRoute : public Route {
 public:
  std::string_view name() const override { return "direct"; }
  bool staged() const override { return false; }

  std::span<std::byte> host_of(View view, std::byte*) override {
    if (view.bytes == 0) return {};
    return {view.buffer->host_data() + view.offset, static_cast<std::size_t>(view.bytes)};
  }

  void queue_before_send(View, std::span<std::byte>, Queue&) override {}
  void queue_after_recv(View, std::span<std::byte>, Queue&) override {}
};

class HostStagedRoute : public Route {
 public:
  std::string_view name() const override { return "host-staged"; }
  bool staged() const override { return true; }

  std::span<std::byte> host_of(View view, std::byte* staging) override {
    return {staging, static_cast<std::size_t>(view.bytes)};
  }

  void queue_before_send(View view, std::span<std::byte> host, Queue& queue) override {
    if (view.bytes > 0) queue.download(view, host);
  }

  void queue_after_recv(View view, std::span<std::byte> host, Queue& queue) override {
    if (view.bytes > 0) queue.upload(host, view);
  }
};

}  // namespace

std::unique_ptr<Route> make_host_staged_route() { return std::make_unique<HostStagedRoute>(); }

std::unique_ptr<Route> route_for(Backend& backend) {
  const bool addressable = backend.allocate(256)->host_data() != nullptr;
  if (addressable) return std::make_unique<DirectRoute>();
  return make_host_staged_route();
}

}  // namespace hethub
