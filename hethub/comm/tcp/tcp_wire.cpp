#include "hethub/comm/tcp/tcp_wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace hethub {
namespace {

// Small messages are read many at a time; what is larger goes straight to its place.
constexpr std::size_t kReadAhead = 64 * 1024;
constexpr std::size_t kReadAheadInBulk = 1024;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

class TcpWire : public Wire {
 public:
  explicit TcpWire(Descriptor socket)
      : socket_(std::move(socket)),
        ahead_(std::make_unique_for_overwrite<std::byte[]>(kReadAhead)) {
    const int flags = ::fcntl(socket_.get(), F_GETFL);
    ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK);
  }

  std::string_view name() const override { return "tcp"; }

  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    std::array<iovec, 2> parts = {{{const_cast<std::byte*>(first.data()), first.size()},
                                   {const_cast<std::byte*>(second.data()), second.size()}}};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t taken = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (taken >= 0) return static_cast<std::size_t>(taken);
    if (!would_block(errno) && end_.empty()) end_ = std::strerror(errno);
    return 0;
  }

  std::size_t read(std::span<std::byte> to) override {
    std::size_t given = take_ahead(to);
    if (given == to.size()) return given;
    // A large message goes to its place in whole; of what follows it little is read ahead, since
    // the next is likely to be large too.
    if (to.size() - given >= kReadAhead) {
      in_bulk_ = true;
      return given + receive(to.subspan(given));
    }
    filled_ =
        receive({ahead_.get(), std::exchange(in_bulk_, false) ? kReadAheadInBulk : kReadAhead});
    taken_ = 0;
    given += take_ahead(to.subspan(given));
    return given;
  }

  void flush() override {}
  bool attend(bool) override { return false; }
  int descriptor() const override { return socket_.get(); }
  void awoken() override {}
  std::string_view end() const override { return end_; }

 private:
  std::size_t take_ahead(std::span<std::byte> to) {
    const std::size_t size = std::min(to.size(), filled_ - taken_);
    if (size > 0) std::memcpy(to.data(), ahead_.get() + taken_, size);
    taken_ += size;
    return size;
  }

  std::size_t receive(std::span<std::byte> to) {
    const ssize_t given = ::recv(socket_.get(), to.data(), to.size(), 0);
    if (given > 0) return static_cast<std::size_t>(given);
    if (given == 0 && end_.empty()) end_ = "connection closed";
    if (given < 0 && !would_block(errno) && end_.empty()) end_ = std::strerror(errno);
    return 0;
  }

  Descriptor socket_;
  std::unique_ptr<std::byte[]> ahead_;  // not touched, and so not there, before bytes come
  bool in_bulk_ = false;
  std::size_t filled_ = 0;
  std::size_t taken_ = 0;
  std::string end_ = {};
};

}  // namespace

std::unique_ptr<Wire> make_tcp_wire(Descriptor socket) {
  return std::make_unique<TcpWire>(std::move(socket));
}

}  // namespace hethub
