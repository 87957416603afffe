#include "hethub/comm/sleeping_place.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "hethub/base/error.h"

namespace hethub {
namespace {

constexpr int kNobody = -1;

void add(int epoll, int descriptor, std::uint32_t events, int number) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = number;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) return;
  // A descriptor that stands for several, itself an epoll, wakes every place.
  event.events &= ~static_cast<std::uint32_t>(EPOLLEXCLUSIVE);
  if (errno == EINVAL && ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) return;
  throw Error(ErrorCode::kInternal, {.what = "watching the connection to a peer",
                                     .found = std::strerror(errno),
                                     .expected = "epoll to take it",
                                     .fix = "raise the limit of open files (ulimit -n)"});
}

// Rounded up, so that a sleep does not end early again and again.
int milliseconds_to(Deadline until) {
  const auto now = std::chrono::steady_clock::now();
  if (until <= now) return 0;
  constexpr auto kLongest = std::chrono::hours(1);
  const auto left = std::min<Deadline::duration>(until - now, kLongest);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

}  // namespace

SleepingPlace::SleepingPlace()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  add(epoll_.get(), wake_.get(), EPOLLIN | EPOLLET, kNobody);
}

void SleepingPlace::watch(int descriptor, int number) {
  add(epoll_.get(), descriptor, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE, number);
}

std::span<const int> SleepingPlace::sleep(Numbers& into, Deadline until) const {
  std::array<epoll_event, std::tuple_size_v<Numbers>> events = {};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 milliseconds_to(until));
  std::size_t kept = 0;
  for (int at = 0; at < count; ++at) {
    const int number = events[static_cast<std::size_t>(at)].data.fd;
    if (number != kNobody) into[kept++] = number;
  }
  return std::span(into).first(kept);
}

void SleepingPlace::wake() const {
  const std::uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof one) < 0) {
    // Its counter is full, so the sleeper wakes anyway.
  }
}

}  // namespace hethub
