#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hethub/base/error.h"
#include "hethub/comm/plugin/transport.h"

namespace hethub {

// Sleeping: the transport tells through its own descriptor once it is armed, which it refuses while
// something waits to be read; the peer's end through the socket. One epoll stands for both, with an
// event of this side's own for what came while it was being armed.
class TransportWire : public Wire {
 public:
  TransportWire(TransportEnd end, Descriptor socket)
      : socket_(std::move(socket)),
        end_(std::move(end)),
        again_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
    watch(table().descriptor(end_.end_.get()));
    watch(socket_.get());
    watch(again_.get());
    attend(false);
  }

  std::string_view name() const override { return table().name; }

  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    return table().write(end_.end_.get(), first.data(), first.size(), second.data(), second.size());
  }

  std::size_t read(std::span<std::byte> to) override {
    const std::size_t given = table().read(end_.end_.get(), to.data(), to.size());
    if (given == 0 && !to.empty()) note_end();
    return given;
  }

  void flush() override {
    if (!attended_) arm();
  }

  bool attend(bool attended) override {
    attended_ = attended;
    if (!attended) arm();
    return true;
  }

  int descriptor() const override { return epoll_.get(); }

  void awoken() override {
    std::uint64_t times = 0;
    static_cast<void>(!::read(again_.get(), &times, sizeof times));
    char nothing = 0;
    const ssize_t got = ::recv(socket_.get(), &nothing, 1, MSG_PEEK);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) closing_ = true;
    if (closing_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
  }

  std::string_view end() const override { return ended_; }

 private:
  const HethubTransport& table() const { return *end_.transport_; }

  void watch(int descriptor) {
    epoll_event event = {};
    event.events = EPOLLIN;
    require(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0,
            {.what = text("transport ", name(), ": its descriptor"),
             .found = "one that epoll does not take",
             .expected = "one that can be slept on",
             .fix = "choose tcp, and tell the maker of the transport"});
  }

  void arm() {
    if (table().arm(end_.end_.get()) != 0) return;
    const std::uint64_t one = 1;
    static_cast<void>(!::write(again_.get(), &one, sizeof one));
  }

  // Nothing more can be read; why nothing more will come, if so.
  void note_end() {
    if (!ended_.empty()) return;
    ended_ = table().failure(end_.end_.get());
    if (ended_.empty() && closing_) ended_ = "connection closed";
  }

  Descriptor socket_;  // closed after the end: the peer takes its end for that of the stream
  TransportEnd end_;
  Descriptor again_;
  Descriptor epoll_;
  bool attended_ = false;
  bool closing_ = false;
  std::string ended_ = {};
};

namespace {

[[noreturn]] void fail(const HethubTransport& transport, const char* step,
                       const HethubTransportError& error) {
  throw Error(ErrorCode::kUnavailable,
              {.what = text("transport ", transport.name, ": ", step),
               .found = std::string(error.why, ::strnlen(error.why, sizeof error.why)),
               .expected = "a connection to the peer",
               .fix = text("see that the network of ", transport.name, " works, or choose tcp")});
}

}  // namespace

TransportEnd::TransportEnd(const HethubTransport& transport)
    : transport_(&transport), end_(nullptr, Close{&transport}) {
  HethubTransportError error = {};
  end_.reset(transport.open(&error));
  if (end_ == nullptr) fail(transport, "opening an end", error);
}

std::span<const std::byte> TransportEnd::address() const {
  std::uint64_t bytes = 0;
  const void* address = transport_->address(end_.get(), &bytes);
  return {static_cast<const std::byte*>(address), bytes};
}

std::unique_ptr<Wire> TransportEnd::connect(std::span<const std::byte> address,
                                            Descriptor socket) && {
  HethubTransportError error = {};
  if (transport_->connect(end_.get(), address.data(), address.size(), &error) != 0) {
    fail(*transport_, "connecting to a peer", error);
  }
  return std::make_unique<TransportWire>(std::move(*this), std::move(socket));
}

}  // namespace hethub
