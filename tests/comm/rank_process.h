#pragma once

#include <array>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hethub/base/clock.h"
#include "hethub/base/deadline.h"
#include "hethub/base/descriptor.h"
#include "hethub/base/error.h"
#include "hethub/comm/rendezvous.h"

namespace hethub {

/// A rank in a process of its own, which says lines to the test that started it and dies with it.
/// The test has one thread when it starts one.
class RankProcess {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Says an Error of `body` as "error SECONDS TEXT", with the time on seconds_now()'s clock.
  static void said_of(const Say& say, const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      say(text("error ", std::to_string(seconds_now()), ' ', error.what()));
    }
  }

  /// Runs `body` in the process, and says its Error.
  explicit RankProcess(const std::function<void(const Say&)>& body) {
    int ends[2] = {};
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    said_from_ = Descriptor(ends[0]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      run(body, ends[1]);
    }
    ::close(ends[1]);
  }
  RankProcess(RankProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        said_from_(std::move(other.said_from_)),
        said_(std::move(other.said_)) {}
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  const std::string& said() const { return said_; }

  /// Reads until it has said `part`; false if it ends, or two minutes pass, before it does.
  bool await(const std::string& part) {
    const Deadline deadline = after_seconds(120);
    while (said_.find(part) == std::string::npos) {
      if (!read_more(deadline)) return false;
    }
    return true;
  }

  /// What it has said when it has ended.
  const std::string& all() {
    const Deadline deadline = after_seconds(120);
    while (read_more(deadline)) {
    }
    return said_;
  }

  /// The time at which it said its error; 0: it did not.
  double error_seconds() const {
    const auto at = said_.find("error ");
    return at == std::string::npos ? 0 : std::stod(said_.substr(at + 6));
  }

 private:
  [[noreturn]] static void run(const std::function<void(const Say&)>& body, int to) {
    const Say say = [to](const std::string& line) {
      const std::string all = line + '\n';
      static_cast<void>(!::write(to, all.data(), all.size()));
    };
    said_of(say, [&] { body(say); });
    ::_exit(0);
  }

  bool read_more(Deadline deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd polled = {.fd = said_from_.get(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&polled, 1, static_cast<int>(left.count())) <= 0) return false;
    std::array<char, 4096> block = {};
    const ssize_t got = ::read(said_from_.get(), block.data(), block.size());
    if (got > 0) said_.append(block.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  Descriptor said_from_;
  std::string said_ = {};
};

/// How the ranks of a test pass messages around.
struct RingOfMessages {
  std::size_t bytes = 0;
  int rounds = 0;
  double deadline_s = 60;  ///< of each round
};

/// Joins the world, says "met", then each round sends to the next rank and receives from the one
/// before; at the end says "done". What the communicator notices is said as "notice SENTENCE".
inline void pass_messages(RendezvousOptions options, const RingOfMessages& ring,
                          const RankProcess::Say& say) {
  options.on_notice = [&](const std::string& sentence) { say("notice " + sentence); };
  const auto world = join_world(options);
  say("met");
  const int next = (options.rank + 1) % options.world_size;
  const int previous = (options.rank + options.world_size - 1) % options.world_size;
  std::vector<std::byte> out(ring.bytes);
  std::vector<std::byte> in(ring.bytes);
  // Said before the world is left, which takes the time of a goodbye.
  RankProcess::said_of(say, [&] {
    for (int round = 0; round < ring.rounds; ++round) {
      const Operation operation{.name = "round", .number = round};
      const Handle received = world->post_recv(previous, {.match = 1}, in);
      const Handle sent = world->post_send(next, {.match = 1}, out);
      world->wait(received, after_seconds(ring.deadline_s), operation);
      world->wait(sent, after_seconds(ring.deadline_s), operation);
    }
    world->control()->barrier(after_seconds(ring.deadline_s));
    say("done");
  });
}

}  // namespace hethub
