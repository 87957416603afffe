#include "hethub/profile/link_timer.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "hethub/base/clock.h"
#include "hethub/base/deadline.h"
#include "hethub/comm/tags.h"
#include "hethub/profile/op_timer.h"

namespace hethub {
namespace {

constexpr double kPeerTimeout = 120;
constexpr int kWarmUps = 2;
constexpr std::string_view kOperation = "link profile";

void send(Messenger& messenger, int peer, std::span<const std::byte> data) {
  const Handle handle = messenger.post_send(peer, point_to_point_tag(0, 1), data);
  messenger.wait(handle, after_seconds(kPeerTimeout), {.name = kOperation});
}

void receive(Messenger& messenger, int peer, std::span<std::byte> data) {
  const Handle handle = messenger.post_recv(peer, point_to_point_tag(0, 1), data);
  messenger.wait(handle, after_seconds(kPeerTimeout), {.name = kOperation});
}

// Memory that messages rotate through, so that each one meets bytes that are out of cache, as
// gradients and parameters are when they are sent.
class MessageMemory {
 public:
  std::span<std::byte> next(std::size_t bytes) {
    if (offset_ + bytes > memory_.size()) offset_ = 0;
    offset_ += bytes;
    return std::span(memory_).subspan(offset_ - bytes, bytes);
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(std::size_t{64} << 20, std::byte{1});
  std::size_t offset_ = 0;
};

// Both ranks send and receive at once, as they do in every step of a ring.
double exchange(Messenger& messenger, int peer, std::span<const std::byte> out,
                std::span<std::byte> in) {
  const Tag tag = point_to_point_tag(0, 2);
  const double begin = seconds_now();
  const Handle received = messenger.post_recv(peer, tag, in);
  const Handle sent = messenger.post_send(peer, tag, out);
  messenger.wait(received, after_seconds(kPeerTimeout), {.name = kOperation});
  messenger.wait(sent, after_seconds(kPeerTimeout), {.name = kOperation});
  return seconds_now() - begin;
}

}  // namespace

std::vector<double> message_sizes() {
  std::vector<double> sizes;
  for (double size = 1024; size <= 16.0 * 1024 * 1024; size *= 4) {
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<LinkPoint> time_messages(Messenger& messenger, int peer, bool starts,
                                     const std::vector<double>& sizes, int repeats) {
  std::vector<LinkPoint> points;
  MessageMemory out;
  MessageMemory in;
  for (const double size : sizes) {
    const auto bytes = static_cast<std::size_t>(size);
    std::vector<double> seconds;
    for (int repeat = -kWarmUps; repeat < repeats; ++repeat) {
      const double both = exchange(messenger, peer, out.next(bytes), in.next(bytes));
      if (repeat >= 0) seconds.push_back(both);
    }
    points.push_back({.bytes = size, .seconds = std::max(median_of(seconds), 1e-9)});
  }
  const auto bytes = std::as_writable_bytes(std::span(points));
  if (starts) {
    send(messenger, peer, bytes);
  } else {
    receive(messenger, peer, bytes);
  }
  return points;
}

CopyRates time_copies(Backend& backend, const std::vector<double>& sizes, int repeats) {
  const auto memory =
      backend.allocate(static_cast<std::int64_t>(*std::max_element(sizes.begin(), sizes.end())));
  if (memory->host_data() != nullptr) return {};
  const auto queue = backend.make_queue();
  std::vector<std::byte> host(static_cast<std::size_t>(memory->bytes()));
  std::vector<LinkPoint> downloads;
  std::vector<LinkPoint> uploads;
  for (const double size : sizes) {
    const View view{memory.get(), 0, static_cast<std::int64_t>(size)};
    const auto bytes = std::span(host).first(static_cast<std::size_t>(size));
    std::vector<double> down;
    std::vector<double> up;
    for (int repeat = -kWarmUps; repeat < repeats; ++repeat) {
      const double begin = seconds_now();
      queue->download(view, bytes);
      queue->synchronize(after_seconds(kPeerTimeout));
      const double middle = seconds_now();
      queue->upload(bytes, view);
      queue->synchronize(after_seconds(kPeerTimeout));
      if (repeat < 0) continue;
      down.push_back(middle - begin);
      up.push_back(seconds_now() - middle);
    }
    downloads.push_back({.bytes = size, .seconds = std::max(median_of(down), 1e-9)});
    uploads.push_back({.bytes = size, .seconds = std::max(median_of(up), 1e-9)});
  }
  return {.download = fit_link(downloads), .upload = fit_link(uploads)};
}

}  // namespace hethub
