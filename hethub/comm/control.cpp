#include "hethub/comm/control.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "hethub/comm/error_text.h"

namespace hethub {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Deadline from, Deadline to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

// 3.14 as "3.1".
std::string Control::tenths(double seconds) {
  const auto all = static_cast<std::int64_t>(seconds * 10);
  return text(all / 10, '.', all % 10);
}

Control::Control(ControlOptions options, std::vector<Descriptor> links)
    : options_(std::move(options)),
      links_(links.size()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = -1;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    if (!links[rank].valid()) continue;
    event.data.fd = static_cast<int>(rank);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, links[rank].get(), &event);
    links_[rank].socket = std::move(links[rank]);
    links_[rank].heard = Clock::now();
  }
  next_tick_ = Clock::now();
}

Control::~Control() {
  {
    const Lock lock(mutex_);
    closing_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

void Control::start(std::function<void(const Error& verdict)> on_verdict) {
  on_verdict_ = std::move(on_verdict);
  thread_ = std::thread([this] { run(); });
}

std::string Control::name_of(int rank) const {
  return text("rank ", rank, " (host ", options_.hosts.at(static_cast<std::size_t>(rank)), ")");
}

std::string Control::suspects() const {
  const Lock lock(mutex_);
  std::string all;
  for (const auto& [rank, silent_s] : suspects_) {
    all += text(all.empty() ? "" : ", ", name_of(rank), " silent for ", tenths(silent_s), " s");
  }
  return all;
}

void Control::barrier(Deadline deadline) {
  Lock lock(mutex_);
  const std::uint64_t number = ++barrier_;
  if (options_.rank == 0) {
    release_arrived();
  } else {
    say(0, {.kind = ControlKind::kArrive, .rank = options_.rank, .number = number});
  }
  wake();
  changed_.wait_until(lock, deadline, [&] { return verdict_ || released_ >= number; });
  if (verdict_) throw Error(*verdict_);
  if (released_ >= number) return;
  std::string missing;
  for (std::size_t rank = 1; rank < links_.size() && options_.rank == 0; ++rank) {
    if (links_[rank].arrived < number) missing += text(missing.empty() ? "" : ", ", rank);
  }
  throw Error(ErrorCode::kTimeout,
              {.what = text("barrier #", number, " of all ranks"),
               .found = missing.empty() ? "no release by rank 0 at the deadline"
                                        : text("no rank ", missing, " at the deadline"),
               .expected = "all of them",
               .fix = "see whether these ranks still run, or raise the timeout"});
}

// ---- the thread ---------------------------------------------------------------------------------

void Control::run() {
  std::array<epoll_event, 64> events = {};
  Lock lock(mutex_);
  while (!closing_) {
    const double left = seconds_between(Clock::now(), next_tick_);
    const double grace = probable_ ? seconds_between(Clock::now(), probable_until_) : left;
    const int ms = static_cast<int>(std::max(std::min(left, grace) * 1000 + 1, 0.0));
    lock.unlock();
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), ms);
    lock.lock();
    // Before anything is read: what came while this process was stopped is no silence.
    if (seconds_between(next_tick_, Clock::now()) >= 0) tick();
    for (int event = 0; event < count; ++event) {
      const int rank = events[static_cast<std::size_t>(event)].data.fd;
      if (rank >= 0) read(rank);
    }
    std::uint64_t wakes = 0;
    static_cast<void>(::read(wake_.get(), &wakes, sizeof wakes));
    if (probable_ && !verdict_ && Clock::now() >= probable_until_) decide(*probable_);
    for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
      flush(rank);
    }
    const bool tells = verdict_ && !std::exchange(told_, true);
    const std::vector<std::string> notices = std::exchange(notices_, {});
    lock.unlock();
    if (tells) on_verdict_(*verdict_);
    for (const std::string& notice : notices) {
      if (options_.on_notice) options_.on_notice(notice);
    }
    lock.lock();
  }
  say_to_all({.kind = ControlKind::kGoodbye, .rank = options_.rank});
}

// Once every heartbeat_s.
void Control::tick() {
  const Deadline now = Clock::now();
  forgive_own_sleep(now);
  next_tick_ = now + (after_seconds(options_.heartbeat_s) - Clock::now());
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    watch(rank, now);
  }
  say_to_all({.kind = ControlKind::kHeartbeat, .rank = options_.rank});
}

// A tick that comes this late shows that this process itself was stopped or starved.
void Control::forgive_own_sleep(Deadline now) {
  if (seconds_between(next_tick_, now) < options_.suspect_s / 2) return;
  for (Link& link : links_) {
    link.heard = now;
  }
}

void Control::watch(int rank, Deadline now) {
  const Link& link = links_[static_cast<std::size_t>(rank)];
  if (!watched(link) || verdict_) return;
  const double silent_s = seconds_between(link.heard, now);
  if (silent_s >= options_.suspect_s) set_suspect(rank, silent_s);
  if (silent_s < options_.peer_timeout_s) return;
  decide(Error(ErrorCode::kUnavailable,
               {.what = name_of(rank),
                .found = text("no sign of life for ", tenths(silent_s), " s"),
                .expected = text("one in ", options_.peer_timeout_s, " s"),
                .fix = "see whether it was stopped, or its host or network is down; or raise "
                       "--peer-timeout"}));
}

void Control::set_suspect(int rank, double silent_s) {
  Link& link = links_[static_cast<std::size_t>(rank)];
  const bool known = link.socket.valid() && std::exchange(link.suspect, silent_s > 0);
  const auto entry = std::find_if(suspects_.begin(), suspects_.end(),
                                  [rank](const auto& one) { return one.first == rank; });
  const bool listed = entry != suspects_.end();
  if (listed) suspects_.erase(entry);
  if (silent_s > 0) suspects_.emplace_back(rank, silent_s);
  if (options_.rank == 0) {
    say_to_all({.kind = ControlKind::kSuspect,
                .rank = rank,
                .number = static_cast<std::uint64_t>(silent_s * 1000)});
  }
  if ((known || listed) == (silent_s > 0)) return;  // nothing new for people
  notices_.push_back(silent_s > 0 ? text(name_of(rank), " is suspect: no sign of life for ",
                                         tenths(silent_s), " s; it is given up after ",
                                         options_.peer_timeout_s, " s")
                                  : text(name_of(rank), " is heard again"));
}

void Control::lose(int rank, const std::string& why) {
  Link& link = links_[static_cast<std::size_t>(rank)];
  link.gone = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket.get(), nullptr);
  if (link.left || verdict_ || probable_) return;
  probable_ =
      Error(ErrorCode::kUnavailable,
            {.what = name_of(rank),
             .found = text("it is gone: ", why),
             .expected = "it to run until the job ends",
             .fix = text("see the output of rank ", rank, "; all ranks were told to stop")});
  probable_until_ = after_seconds(kBetterReportSeconds);
}

// ---- what is said -------------------------------------------------------------------------------

void Control::read(int rank) {
  Link& link = links_[static_cast<std::size_t>(rank)];
  while (!link.gone) {
    const std::span<std::byte> room = link.in.room();
    const ssize_t got = ::recv(link.socket.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      // A peer that ends with heartbeats unread resets its connection: to us that is one event.
      const bool closed = got == 0 || errno == ECONNRESET;
      lose(rank, closed ? "connection closed" : std::strerror(errno));
      return;
    }
    link.in.add(static_cast<std::size_t>(got));
    link.heard = Clock::now();
    if (link.suspect) set_suspect(rank, 0);
    if (!take_frames(rank)) {
      lose(rank, "it sent what is no control frame");
      return;
    }
  }
}

// Whether all is well-formed.
bool Control::take_frames(int rank) {
  ControlFrame frame;
  std::string text;
  ControlInbox::Found found = ControlInbox::Found::kFrame;
  while (found == ControlInbox::Found::kFrame) {
    found = links_[static_cast<std::size_t>(rank)].in.next(frame, text);
    if (found == ControlInbox::Found::kFrame) take(rank, frame, text);
  }
  return found == ControlInbox::Found::kNothing;
}

void Control::take(int rank, const ControlFrame& frame, const std::string& text) {
  Link& link = links_[static_cast<std::size_t>(rank)];
  const bool from_master = rank == 0;
  switch (frame.kind) {
    case ControlKind::kHeartbeat:
      return;
    case ControlKind::kSuspect:
      if (!from_master || frame.rank < 0 || frame.rank >= static_cast<int>(links_.size())) return;
      set_suspect(frame.rank, static_cast<double>(frame.number) / 1000);
      return;
    case ControlKind::kReport:
      if (!from_master) consider_report(rank, text);
      return;
    case ControlKind::kVerdict:
      if (!from_master || verdict_) return;
      verdict_ = error_from(text);
      changed_.notify_all();
      return;
    case ControlKind::kArrive:
      link.arrived = frame.number;
      if (!from_master) release_arrived();
      return;
    case ControlKind::kRelease:
      if (from_master) released_ = frame.number;
      changed_.notify_all();
      return;
    case ControlKind::kGoodbye:
      link.left = true;
      if (link.suspect) set_suspect(rank, 0);
      return;
  }
}

void Control::release_arrived() {
  std::uint64_t all = barrier_;
  for (std::size_t rank = 1; rank < links_.size(); ++rank) {
    all = std::min(all, links_[rank].arrived);
  }
  if (all <= released_) return;
  released_ = all;
  say_to_all({.kind = ControlKind::kRelease, .number = all});
  changed_.notify_all();
}

void Control::say(int rank, ControlFrame frame, const std::string& text) {
  // A peer that takes nothing for so long is suspect anyway.
  constexpr std::size_t kMostWaiting = 64 * 1024;
  Link& link = links_[static_cast<std::size_t>(rank)];
  if (!link.socket.valid() || link.gone || link.out.size() > kMostWaiting) return;
  frame.bytes = static_cast<std::uint32_t>(std::min(text.size(), ControlInbox::kMostText));
  link.out.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  link.out.append(text, 0, frame.bytes);
  flush(rank);
}

void Control::say_to_all(const ControlFrame& frame, const std::string& text) {
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    say(rank, frame, text);
  }
}

// What does not fit now is tried again at the next tick.
void Control::flush(int rank) {
  Link& link = links_[static_cast<std::size_t>(rank)];
  if (link.out.empty() || link.gone) return;
  const ssize_t taken =
      ::send(link.socket.get(), link.out.data(), link.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (taken > 0) link.out.erase(0, static_cast<std::size_t>(taken));
}

void Control::wake() const {
  const std::uint64_t one = 1;
  // If its counter is full, the thread wakes anyway.
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

}  // namespace hethub
