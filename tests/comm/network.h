#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "hethub/base/text.h"
#include "tests/comm/rank_process.h"

namespace hethub {

/// Ranks in network namespaces of their own, with addresses 10.77.0.1, .2, ... on one bridge. The
/// process of the test moves to a namespace too, as root there: nothing outside it is touched, and
/// all is gone when the processes end.
class Network {
 public:
  /// Why there can be none here; empty: there is one. The process must have one thread.
  static const std::string& missing() {
    static const std::string kMissing = open();
    return kMissing;
  }

  Network() = default;
  // A namespace goes some time after its last process: its link would answer meanwhile.
  ~Network() {
    for (const auto& [rank, link] : links_) {
      static_cast<void>(!::system(("ip link del " + link + " 2>/dev/null").c_str()));
    }
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  static std::string address_of(int rank) { return text("10.77.0.", rank + 1); }

  /// Runs `body` as that rank once its network is up.
  RankProcess start(int rank, const std::function<void(const RankProcess::Say&)>& body) {
    int go[2] = {};
    if (::pipe(go) != 0) throw std::runtime_error("no pipe");
    RankProcess process([&](const RankProcess::Say& say) {
      ::close(go[1]);
      const bool alone = ::unshare(CLONE_NEWNET) == 0;
      say(alone ? "alone" : "together");
      char told = 0;
      static_cast<void>(!::read(go[0], &told, 1));
      command("ip link set lo up");
      command(text("ip addr add ", address_of(rank), "/24 dev eth0"));
      command("ip link set eth0 up");
      body(say);
    });
    ::close(go[0]);
    process.await("alone");
    links_[rank] = text("rank", process.pid());
    command(text("ip link add ", links_[rank], " type veth peer name eth0 netns ", process.pid()));
    heal(rank);
    command(text("ip link set ", links_[rank], " up"));
    ::close(go[1]);
    return process;
  }

  /// From now on nothing reaches that rank and nothing leaves it; it is not told.
  void cut_off(int rank) const { command(text("ip link set ", links_.at(rank), " nomaster")); }
  void heal(int rank) const { command(text("ip link set ", links_.at(rank), " master bridge")); }

  /// What reaches that rank comes at this rate ("100mbit").
  void slow_down(int rank, const std::string& rate) const {
    command(text("tc qdisc add dev ", links_.at(rank), " root tbf rate ", rate, kQueue));
  }

  /// Whether the system knows such rates.
  static bool can_slow_down() {
    const std::string line = text("tc qdisc replace dev probe root tbf rate 1mbit", kQueue);
    return ::system((line + " 2>/dev/null").c_str()) == 0;
  }

 private:
  static constexpr const char* kQueue = " burst 64k latency 200ms";

  static void command(const std::string& line) {
    if (::system(line.c_str()) != 0) ADD_FAILURE() << line;
  }

  static void write(const char* file, const std::string& content) {
    std::ofstream(file) << content;
  }

  static std::string open() {
    const auto user = ::getuid();
    const auto group = ::getgid();
    if (::unshare(CLONE_NEWNET) != 0) {
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return text("this system permits no network namespace: ", std::strerror(errno));
      }
      write("/proc/self/setgroups", "deny");
      write("/proc/self/uid_map", text("0 ", user, " 1"));
      write("/proc/self/gid_map", text("0 ", group, " 1"));
    }
    const bool bridged = ::system(
                             "ip link add bridge type bridge 2>/dev/null && "
                             "ip link set bridge up && ip link set lo up && "
                             "ip link add probe type veth") == 0;
    return bridged ? "" : "no bridge or veth here: iproute2 or the kernel's modules are missing";
  }

  std::map<int, std::string> links_ = {};
};

}  // namespace hethub
